"""Which rows of which sources are traces, by which paths; what an instant is; what is refused."""

import gzip
import json
import os

import duckdb
import pytest

from answerkey.tasks.traces import select as selecting
from answerkey.tasks.traces.rules import instant
from answerkey.tasks.traces.select import check_source
from tests.judge_server import JudgeServer
from tests.kit.serving import served
from tests.tasks.judging_help import judged
from tests.tasks.staging_help import query, refusal, rows_of
from tests.tasks.traces.tracing_help import counts, rule, run, trace

LINES = [json.dumps(trace(n)) for n in range(3)]


@pytest.fixture
def logs(tmp_path):
    """A folder with three traces in files of several kinds, an empty log, and an empty folder."""
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    (folder / "none").mkdir()
    (folder / "none" / ".gitkeep").touch()
    (folder / "a.jsonl").write_text(f"\n{LINES[0]}\n\n{LINES[1]}\n")
    (folder / "x[1].jsonl").write_text(LINES[2])
    (folder / "today.jsonl").write_text("")
    (folder / "deep" / "b.ndjson.gz").write_bytes(gzip.compress(LINES[2].encode()))
    (folder / "list.json").write_text(f"[{','.join(LINES)}]")
    (folder / "page.json").write_text(f'{{"data": [{",".join(LINES)}], "meta": {{}}}}')
    with duckdb.connect(str(folder / "log's.duckdb")) as connection:
        connection.execute(f'CREATE TABLE "tra""ces" AS FROM read_json(\'{folder}/list.json\')')
        connection.execute(f'COPY "tra""ces" TO \'{folder}/p.parquet\'')
        connection.execute(f'COPY "tra""ces" TO \'{folder}/table.csv\'')
        connection.execute("CREATE VIEW reads AS SELECT 't1' AS id, content AS output FROM read_text('/etc/hostname')")
    return folder


@pytest.mark.parametrize(
    ("source", "n"),
    {
        "*.jsonl": 3, "x[1].jsonl": 1, "page.json": 3, "p.parquet": 3, "table.csv": 3, "log's.duckdb::tra\"ces": 3,
        "deep": 1, "today.jsonl": 0, "none": 0,
    }.items(),
)  # fmt: skip
def test_a_source_is_what_the_loader_reads_and_may_be_empty_yet(logs, tmp_path, source, n):
    given = rule(tmp_path / "rules", source=f"../logs/{source}", where="env = 'production'")
    check_source(given.source)
    assert counts(run(tmp_path / "home", given)) == (f"{n} seen, {n} scored, {n} measured" if n else "")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere.jsonl", "nowhere.jsonl: there is no such file"),
        ("*.log", "*.log: there is no file; give CSV"),
        ("a.txt.bak", "a.txt.bak: '.bak' is not a known kind; give CSV"),
        ("log's.duckdb::nowhere", "log's.duckdb::nowhere: there is no such table; it has"),
        ("log's.duckdb::reads", "log's.duckdb::reads: it is a view of other files, which none of a loaded file may"),
    ],
)
def test_a_source_that_cannot_be_used(logs, tmp_path, source, said):
    (logs / "a.txt.bak").write_text("x")
    message = refusal(run, tmp_path / "home", rule(tmp_path / "rules", source=f"../logs/{source}"))
    assert message.startswith(f"{logs}/{said}")


def test_a_conversation_is_scored_by_its_calls_and_by_a_rubric(traces, tmp_path):
    conversations = []
    for number, order in enumerate((0, 9)):
        call = {"role": "assistant", "tool_calls": [{"name": "look_up", "arguments": json.dumps({"order": order})}]}
        said = {"role": "assistant", "content": f"{number} is here."}
        expected = [{"name": "look_up", "arguments": {"order": number}}]
        conversations.append({"messages": [{"role": "user", "content": "Where?"}, call, said], "calls": expected})
    traces.log(*(trace(n, **content) for n, content in enumerate(conversations)), trace(2))
    answer = {"answer": "messages[-1].content"}
    mapping = {**answer, "tool_calls": "messages", "expected_tool_calls": "calls"}
    by_calls = run(tmp_path, rule(tmp_path, mapping=mapping, metric="tool_calls"))
    assert counts(by_calls) == "3 seen, 2 scored, 1 undefined, 3 measured"
    assert by_calls.mean == 0.5

    # Without references, which this rubric does not need
    text = "name: polite\ninputs: [messages]\ncriterion: The assistant is polite.\nscale: yes/no\n"
    (tmp_path / "polite.yaml").write_text(text)
    with JudgeServer(lambda _body: '{"reason": "It says hello.", "verdict": "yes"}') as judge:
        given = rule(tmp_path, name="p", mapping=answer, metric=str(tmp_path / "polite.yaml"))
        by_rubric = run(tmp_path, given, options=judged(judge.url))
        bodies = [json.dumps(request.body) for request in judge.requests]
    assert counts(by_rubric) == "3 seen, 2 scored, 1 undefined, 3 measured"
    assert sorted("0 is here." in body for body in bodies) == [False, True]


def test_a_token_in_the_address_of_a_source_is_in_no_file(traces, tmp_path):
    home, rules = tmp_path / "home", tmp_path / "rules"
    traces.log(trace(0), trace(1, output=["no", "text"]), trace(2, id=None), "no json")
    with served(tmp_path) as site:
        address = f"{site}/log.jsonl"
        funnel = run(home, rule(rules, source=f"{address}?token=canary"))
        said = refusal(run, home, rule(rules, source=f"{address}x.jsonl?token=canary"))
    assert counts(funnel) == "4 seen, 3 quarantined, 1 scored, 1 measured"
    assert said.startswith(f"{address}x.jsonl?…: ") and "404" in said and "canary" not in said
    assert query(home, "SELECT DISTINCT source FROM quarantine") == [(f"{address}?…",)]
    assert query(home, "SELECT definition ->> 'source' FROM trace_rules") == [(f"{address}?…",)]
    assert b"canary" not in (home / "answerkey.duckdb").read_bytes()


def test_a_row_of_several_files_is_known_by_file_and_line(traces):
    (traces.folder / "logs").mkdir()
    for name, text in (("a.jsonl", f"{LINES[0]}\n"), ("b.jsonl", f"\n{LINES[1]}\nno json\n{LINES[2]}\n")):
        (traces.folder / "logs" / name).write_text(text)
    assert traces.counts(source="logs/*.jsonl") == "4 seen, 1 quarantined, 3 scored, 3 measured"
    [(source, row, raw)] = traces.query('SELECT source, "row", raw FROM quarantine')
    assert (os.path.basename(source), row, raw) == ("b.jsonl", 3, "no json")


def test_a_row_of_34_megabytes_is_a_trace(traces):
    traces.log(trace(0, output="0 indeed", page="x" * 34_000_000), trace(1))
    assert traces.counts(where="length(page::VARCHAR) > 32000000") == "2 seen, 1 filtered, 1 scored, 1 measured"
    assert traces.outcomes == {"t0": "scored", "t1": "filtered"}


def test_a_note_says_in_which_encoding_traces_were_read(traces):
    answers = ["Столица России — Москва."] * 5
    lines = [json.dumps(trace(n, output=answer), ensure_ascii=False) for n, answer in enumerate(answers)]
    (traces.folder / "log.jsonl").write_text("\n".join(lines), encoding="cp1251")
    of_rule = traces.prepared()
    assert [row["answer"] for row in rows_of(of_rule.accepted)] == answers
    assert of_rule.notes[0].startswith("r: log.jsonl: read as windows-1251, which was detected")


SPAN = {
    "said": [{"name": "n"}], "flat.key": 1.5, "metadata": '{"refs": ["r", "s"], "a.b": 3}', "n": 9007199254740993,
    "attributes": [
        {"key": "llm.model", "value": {"stringValue": "tiny"}}, {"key": "span.id", "value": {"stringValue": "s1"}},
        {"key": "ms", "value": {"intValue": 7}},
    ],
    "Env": "x", "env": "y",
}  # fmt: skip
CONDITIONS = [
    "said[1].name = 'n'", '"flat.key" > 1.4', "metadata.refs[2] = 's'", "metadata.a.b = 3", 'metadata."a.b" = 3',
    "n = 9007199254740993", "n <> 9007199254740992", "attributes.llm.model = 'tiny' AND attributes.ms > 5",
    "Env = 'x' AND env = 'y'",
    "nothing IS NULL", "said IS NOT NULL AND said[1].name = 'n'",
]  # fmt: skip


def test_a_name_in_a_condition_leads_where_the_path_of_a_mapping_leads(traces):
    traces.log(trace(0, **SPAN))
    assert traces.counts(where=CONDITIONS, id="attributes.span.id") == "1 seen, 1 scored, 1 measured"
    assert traces.outcomes == {"s1": "scored"}
    paths = {"question": "attributes.llm.model", "answer": "metadata.refs[1]", "references": "said[0].name"}
    [row] = rows_of(traces.prepared(name="mapped", mapping=paths, where=CONDITIONS).accepted)
    assert (row["question"], row["answer"], row["references"]) == ("tiny", "s", ["n"])


def test_traces_of_mlflow_have_names_with_dots_and_json_in_texts(traces):
    answers = ("Two", "Москва", 'He said "no"')
    for n, answer in enumerate(answers):
        inputs = json.dumps({"q": "?"})
        traces.log(trace(n, info={"mlflow.traceInputs": inputs, "mlflow.traceOutputs": json.dumps(answer)}))
    mapping = {"question": "info.mlflow.traceInputs.q", "answer": "info.mlflow.traceOutputs", "references": "expected"}
    one = traces.prepared(mapping=mapping)
    assert [(row["question"], row["answer"]) for row in rows_of(one.accepted)] == [("?", answer) for answer in answers]
    assert one.notes == (
        "r: the texts at 'info.mlflow.traceOutputs' are JSON in quotes, and are read as what they say",
    )
    where = (
        "try_cast(start_time::VARCHAR AS DATE) = '2026-11-01' AND length(info.\"mlflow.traceOutputs\"::VARCHAR) > 20"
    )
    assert traces.counts(mapping=mapping, where=where).startswith("3 seen, 2 filtered, 1 scored")


def test_a_condition_that_takes_too_long_stops_the_rule(traces, monkeypatch):
    traces.log(*(trace(n, output="a" * 2_000) for n in range(100)))
    monkeypatch.setattr(selecting, "_LIMIT_S", 0.1)
    # Slow in small pieces: each pair of characters of each trace.
    said = refusal(traces.prepared, where="output ILIKE '%a%b'")
    assert ": where: not done after 0 s; simplify the condition, or split the source" in said


INSTANTS = {
    "2026-11-01T10:00:00Z": "2026-11-01T10:00", "2026-11-01 12:00:00.25+02:00": "2026-11-01T10:00:00.250000",
    **dict.fromkeys(("2026-11-01T10:00:00", "2026-11-01T10:00Z"), "2026-11-01T10:00"), "2026-11-01": "2026-11-01T00:00",
    **dict.fromkeys(("20261101T100000Z", "20261101100000"), "2026-11-01T10:00"), "20261341100000": None,
    "2026-11-01T10:00:00.123456789Z": "2026-11-01T10:00:00.123456", "2026-11-01 10:00:00 UTC": "2026-11-01T10:00",
    **{f"1793500000{zeros}": "2026-11-01T02:26:40" for zeros in ("", ".0", "000", "000000", 9 * "0")},
    **dict.fromkeys(("", "soon", "infinity", "5", "20261101", "1e300", "nan", "9999-12-31", "-1793500000", True)),
}  # fmt: skip


@pytest.mark.parametrize("text", INSTANTS)
def test_what_an_instant_is(text):
    expected = INSTANTS[text]
    moment = instant(text)
    assert (moment and moment.replace(tzinfo=None)) == (expected and type(moment).fromisoformat(expected))
