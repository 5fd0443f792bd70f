"""The rules of the project that no linter holds: pins, start-up, unwanted names, the network, `import answerkey`."""

import ast
import contextlib
import doctest
import io
import os
import re
import socket
import sys
import threading
import tokenize
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import answerkey
from answerkey.tasks import notebook
from tests.conftest import ROOT
from tests.kit.processes import finished
from tests.kit.waiting import FAULT_S

PACKAGES = ("metrics_core", "tasks", "flows", "deployments")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]

HEAVY = (
    "duckdb",
    "great_expectations",
    "litellm",
    "pandas",
    "prefect",
    "scipy",
    "sentence_transformers",
    "torch",
)
# In pieces, so that this file is not the one that breaks its own rule.
UNWANTED = tuple(
    "".join(pieces)
    for pieces in (
        ("pypi", ".org"),
        ("python", "hosted"),
        ("/opt/", "wheels"),
        ("/opt/", "pypi"),
        ("file:", "//"),
        ("/wo", "rk/"),
        ("/tm", "p/"),
        (".libr", "ary/"),
    )
)
MADE = {".git", ".uv", ".venv", ".answerkey", "build", "dist", "node_modules"}


def pins():
    """The pinned version of each package, by canonical name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def project_files():
    """The files that people wrote: no virtual environment, cache, report or build output."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name not in MADE and not name.endswith((".egg-info", "cache", "cache__")) and name != ".hypothesis"
        ]
        # `.git` is a file in a second working tree of one repository.
        yield from (Path(folder, name) for name in names if name not in MADE)


def modules():
    """Every module of the four packages."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def short(path):
    return path.relative_to(ROOT).as_posix()


def python(*arguments):
    """Run a new interpreter in the root of the repository."""
    return finished([sys.executable, *arguments], cwd=ROOT)


def test_constraints_are_exact_pins_in_order_and_nothing_else():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line)] == []
    names = [line.partition("==")[0].lower() for line in lines]
    assert names == sorted(set(names))


@pytest.mark.parametrize("line", REQUIREMENTS)
def test_every_dependency_is_pinned_within_its_range(line):
    requirement = Requirement(line)
    assert canonicalize_name(requirement.name) in pins()
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


def test_the_torch_pin_needs_no_cuda():
    assert pins()["torch"] == "2.13.0"
    assert [name for name in pins() if name.startswith(("nvidia", "cuda", "triton"))] == []


@pytest.mark.parametrize("module", ["answerkey.metrics_core", "answerkey.flows.cli"])
def test_importing_stays_light(module):
    process = python("-c", f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY})))")
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, "", "")


def test_no_file_names_a_package_host_or_a_path_of_one_machine():
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{short(path)}: {word}" for word in UNWANTED if word in text]
    assert found == []


MOST_TOKENS = {
    "right verdicts": 374_000,
    "cuts": 335_000,
    # Above the step before: what reads cells and CSV is there, and the engines that go with this step still are too.
    "data, readers": 328_200,
    "data": 305_000,
    "judges": 293_000,
    "decide": 293_000,
    "Prefect": 286_000,
    "people": 274_000,
    "plain words": 285_000,
}
"""The steps in which the product becomes smaller, and the most tokens of code that each may leave of it."""
DONE = "data, readers"
MOST_TOKENS_OF_TESTS = 330_100
MOST_WORDS_OF_SQL = 20_000
PRODUCT = ("metrics_core", "tasks", "flows", "answerkey")


def files_of(folder, pattern):
    """The files of a folder that are its own: the package `answerkey` links to the others."""
    folders = [inside for inside, *_ in os.walk(ROOT / folder, followlinks=False)]
    return [file for inside in folders for file in sorted(Path(inside).glob(pattern))]


def tokens_of_code(source):
    """Tokens without comments, docstrings and blank lines."""
    owners = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    docstrings = {node.body[0].lineno for node in owners if ast.get_docstring(node, clean=False) is not None}
    return sum(
        token.type not in NO_CODE and not (token.type == tokenize.STRING and token.start[0] in docstrings)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
    )


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def test_the_product_and_its_tests_do_not_grow():
    sizes = {
        folder: sum(tokens_of_code(file.read_text(encoding="utf-8")) for file in files_of(folder, "*.py"))
        for folder in (*PRODUCT, "tests")
    }
    assert min(sizes.values()) > 500
    assert sum(sizes[folder] for folder in PRODUCT) <= MOST_TOKENS[DONE]
    assert sizes["tests"] <= MOST_TOKENS_OF_TESTS
    lines = [
        line
        for folder in PRODUCT
        for file in files_of(folder, "*.sql")
        for line in file.read_text("utf-8").splitlines()
    ]
    assert 5_000 < sum(len(line.split("--")[0].split()) for line in lines) <= MOST_WORDS_OF_SQL


def test_every_session_of_duckdb_is_made_in_one_place():
    # Where its limits are set, and its progress bar is switched off.
    making = [short(path) for path in modules() if "duckdb.connect(" in path.read_text(encoding="utf-8")]
    assert making == ["tasks/warehouse/warehouse.py"]


def test_sql_of_more_than_one_line_is_in_sql_files():
    # metrics_core has some for the ledger and the cache of embeddings, in the modules that open them.
    statement = re.compile(
        r"\b(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE( OR REPLACE)?( TEMP)? (TABLE|VIEW))\b"
    )
    long = []
    for path in modules():
        for node in () if short(path).startswith("metrics_core") else ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno < (node.end_lineno or 0):
                parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                if any(isinstance(part, ast.Constant) and statement.search(str(part.value)) for part in parts):
                    long.append(short(path))
    assert long == []


def test_every_public_module_says_what_it_is():
    public = [path for path in modules() if path.name == "__init__.py" or not path.name.startswith("_")]
    assert public
    assert [short(p) for p in public if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))] == []


def test_a_connection_abroad_is_refused_and_recorded(network_attempts):
    with pytest.raises(ConnectionRefusedError, match=r"'203\.0\.113\.7'"):
        socket.create_connection(("203.0.113.7", 80), timeout=1)
    with socket.socket() as plain, pytest.raises(ConnectionRefusedError, match=r"'203\.0\.113\.7'"):
        plain.connect_ex(("203.0.113.7", 80))
    assert [line.split(" in ")[0] for line in network_attempts()] == [
        "socket.getaddrinfo '203.0.113.7'",
        "socket.connect '203.0.113.7'",
    ]


def test_an_attempt_in_a_thread_is_recorded(network_attempts):
    def look_up():
        with contextlib.suppress(OSError):
            socket.getaddrinfo("thread.example", 443)

    thread = threading.Thread(target=look_up)
    thread.start()
    thread.join()
    assert [line.split(" in ")[0] for line in network_attempts()] == ["socket.getaddrinfo 'thread.example'"]


def test_an_attempt_in_a_started_process_is_recorded(network_attempts):
    process = python("-c", "import socket; socket.getaddrinfo('process.example', 443)")
    assert process.returncode == 1
    assert "asked for 'process.example'" in process.stderr
    assert [line.split(" in ")[0] for line in network_attempts()] == ["socket.getaddrinfo 'process.example'"]


def test_loopback_and_unix_sockets_stay_open(tmp_path, monkeypatch):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=FAULT_S) as client,
    ):
        assert client.getpeername() == server.getsockname()
    monkeypatch.chdir(tmp_path)  # a Unix socket's path has a limit of about 100 bytes
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("s")
        server.listen()
        client.connect("s")
        assert client.getpeername() == "s"


def test_every_public_name_is_there():
    assert {*chain(*answerkey._NAMES.values()), "__version__"} == {*answerkey.__all__} > {*notebook.__all__}
    for name in answerkey.__all__:
        assert getattr(answerkey, name) is not None, name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert answerkey.__version__ == project["version"]
    with pytest.raises(AttributeError, match="module 'answerkey' has no attribute 'evalute'"):
        answerkey.evalute  # noqa: B018


def test_the_example():
    result = doctest.testmod(answerkey)
    assert (result.attempted, result.failed) == (2, 0)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import answerkey", ("answerkey.metrics_core", "pydantic", "regex")),
        ("import answerkey.metrics_core.decide", ("pandas", "pydantic", "scipy.stats")),
        (
            "from answerkey import evaluate, metric, Metric, Sample",
            ("numpy", "litellm", "prefect", "duckdb", "sacrebleu"),
        ),
    ],
)
def test_the_import_is_light(code, absent):
    script = f"{code}\nimport sys\nprint(*sorted(set({absent!r}) & set(sys.modules)))"
    process = finished([sys.executable, "-c", script], check=True, cwd=ROOT)
    assert process.stdout.strip() == ""
