"""What the command line prints on a terminal of any width: no number is broken, and nothing that decides is cut off."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from answerkey.flows.cli import layout
from answerkey.flows.cli.tables import print_history, print_list, print_pairs, print_reports, print_verdict
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.decide.verdict import RuleOutcome, Verdict
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.compare.examples import LargestChange
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.table import Table
from answerkey.tasks.reports.report import ReportPoint
from tests.tasks.publish.page.page_help import FIELDS, field_comparison, report

RELEASES = ("DPR+FiD", "GPT-3.5 (text-davinci-003)", "ChatGPT-3.5", "ChatGPT-4", "Bing Chat")
LONG = "answer_correctness.token_overlap_recall"
NUMBER = re.compile(r"[-+]?\d[\d.,]*\d|[-+]?\d")


@pytest.fixture
def printed_lines(monkeypatch, capsys):
    """The lines that are printed on a terminal of a width."""

    def lines(width, print_):
        terminal = layout.Console(width=width, force_terminal=True, color_system=None, highlight=False)
        monkeypatch.setattr(layout, "console", lambda: terminal)
        print_()
        return capsys.readouterr().out.splitlines()

    return lines


def numbers(lines):
    return set(NUMBER.findall("\n".join(lines)))


def reports(n):
    """Reports of up to five releases, in clusters, with slices and a field of a long name."""
    made = []
    for turn, name in enumerate(RELEASES[:n]):
        one = report(name, (0.5 + turn / 10, 0.4, None))
        scores = [replace(score, n_clusters=1234, n_total=1618, n_scored=1600 + turn) for score in one.scores]
        scores += [replace(score, metric="answer_correctness", field="token_overlap_recall") for score in scores[:1]]
        made.append(replace(one, scores=tuple(scores)))
    return made


def compared():
    rows = (
        field_comparison(LONG, n_common=1618, n_clusters=301, needed=12345, low=-0.0123, p_adjusted=0.81),
        field_comparison(FIELDS[2], fixed=144, broken=142, difference=-0.1, low=-0.15, high=-0.05, n_common=1618),
        field_comparison("bleu.bleu", difference=None, note="only evouna-nq/gpt-4/v1 has it"),
    )
    return Comparison(
        "evouna-nq/GPT-3.5 (text-davinci-003)/v1", "evouna-nq/Bing Chat/v1", rows, ("longer",), n_common=1618
    )


VERDICT = ReleaseVerdict(
    "evouna-nq/ChatGPT-4/v1", "evouna-nq/Bing Chat/v1", parse_policy({"primary": LONG, "margin": 0.02}, "x"),
    Verdict(
        "FAIL", f"Bing Chat must not ship in place of ChatGPT-4: {LONG} went from 0.784 to 0.683 (-0.101).",
        (
            RuleOutcome(f"{LONG} >= -0.02", "FAIL", f"{LONG} went from 0.784 to 0.683 (-0.101)", -0.101, -0.12, -0.08),
            RuleOutcome("coverage >= 0.95", "PASS", "all 1,618 samples have a number", 1.0),
        ),
    ),
)  # fmt: skip

PRINTED: dict[str, Callable[[], None]] = {
    "one release": lambda: print_reports(reports(1), as_json=False),
    "two releases": lambda: print_reports(reports(2), as_json=False),
    "five releases": lambda: print_reports(reports(5), as_json=False),
    "comparison": lambda: print_pairs([compared()], by_slice=False),
    "wide comparison": lambda: print_pairs([compared()], by_slice=False, wide=True),
    "verdict": lambda: print_verdict(VERDICT),
}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("what", PRINTED)
def test_every_number_is_whole_and_every_column_is_there_at_any_width(printed_lines, what, width):
    lines = printed_lines(width, PRINTED[what])
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    # In lines, the names of columns with their numbers and the counts of a release stand at every row.
    assert numbers(lines) == numbers(printed_lines(1000, PRINTED[what]))


# What the library cuts off would be lost, and a number with its last digits cut is another number
WRAPPING = {
    "rules": Table(
        "",
        ["rule", "outcome", "why"],
        [
            [
                "meaning_match.match >= -0.02",
                "INCONCLUSIVE",
                "meaning_match.match went from 0.600 to 0.900 (+0.300, 95 % interval -0.087 to +0.652, 10 samples); a "
                "loss of 0.02 or more is not ruled out",
            ],
            ["coverage >= 0.95", "PASS", "all 10 samples have a number"],
        ],
        left=["outcome", "why"],
        wrapped={"rule": 22, "why": 36},
    ),
    "judges": Table(
        "",
        ["text", "openai/one", "openai/two"],
        [[f"reference {n}", f"{'agrees with it ' * n}0.{n}00", f"{'declines it ' * 2 * n}1.{n}00"] for n in range(6)],
        left=["text", "openai/one", "openai/two"],
        wrapped={"openai/one": 16, "openai/two": 16},
    ),
}


@pytest.mark.parametrize("name", [*PRINTED, *WRAPPING])
def test_no_width_takes_a_character_from_a_cell(printed_lines, monkeypatch, name):
    print_ = PRINTED.get(name) or partial(layout.show, WRAPPING.get(name, ""))
    tables, drawn = [], layout._drawn
    monkeypatch.setattr(layout, "_drawn", lambda table, width: [tables.append(table), *drawn(table, width)][1:])

    def letters(text):
        return Counter(character for character in text if character.isalnum())

    lossy = []
    for width in range(40, 201, 7):
        tables.clear()
        printed = letters("".join(printed_lines(width, print_)))
        if letters("".join(str(cell) for table in tables for row in table.rows for cell in row)) - printed:
            lossy.append(width)

    assert tables
    assert lossy == []


@pytest.mark.parametrize(("width", "stacked"), [(60, True), (80, True), (120, True), (200, False)])
def test_five_releases_stand_side_by_side_where_they_fit_and_else_in_lines(printed_lines, width, stacked):
    lines = printed_lines(width, PRINTED["five releases"])
    assert ("  DPR+FiD" in "\n".join(line[:9] for line in lines)) == stacked
    whole = "".join(lines)
    assert "0.500 [0.400, 0.600]" in whole
    assert all(name in whole for name in RELEASES)


STEERING = "a\x1b[2Jb\x1b]0;owned\x07\x9b31m\u202egpt\u2066"
"""Clears the screen, sets the title of the window, colours, and turns the writing round."""


@pytest.mark.parametrize("width", [60, 200])
def test_nothing_from_data_steers_the_terminal(printed_lines, capsys, monkeypatch, width):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    made = reports(2)[1]
    scores = [replace(score, slice=score.slice if score.slice == "all" else f"x={STEERING}") for score in made.scores]
    manifest = {**made.manifest, "judge": {"judges": ["m"], "calls": 1, "cost_usd": 1.0, "about": STEERING}}
    hostile = replace(
        made, release=STEERING, dataset=STEERING, report_id=f"d/{STEERING}/v1", message=f"rouge_l: {STEERING}",
        scores=tuple(scores), checks=(("rule", "warn", False, f"release {STEERING}"),), manifest=manifest,
    )  # fmt: skip
    change = LargestChange(
        STEERING, STEERING, (STEERING,), STEERING, STEERING, 0.0, 1.0, 1.0, STEERING, STEERING
    )  # fmt: skip
    pair = replace(compared(), old=STEERING, new=f"[red]{STEERING}", warnings=(STEERING,))
    rule = replace(VERDICT.verdict.rules[0], rule=STEERING, sentence=STEERING)
    verdict = replace(VERDICT, verdict=replace(VERDICT.verdict, sentence=STEERING, rules=(rule,)))
    everything: list[Callable[[], None]] = [
        lambda: print_reports([hostile], as_json=False, with_checks=True),
        lambda: print_reports([made, hostile], as_json=False, with_checks=True),
        lambda: print_reports([hostile], as_json=True),
        lambda: print_list([(STEERING, STEERING, STEERING, STEERING)], as_json=False),
        lambda: print_pairs([pair], by_slice=True, samples=[change]),
        lambda: print_verdict(verdict),
    ]
    for print_ in everything:
        lines = printed_lines(width, print_)
        assert "owned" in "".join(lines)
        assert [line for line in lines if not line.isprintable()] == []


def test_a_comparison_in_lines_on_a_narrow_terminal(printed_lines):
    rows = (field_comparison(), field_comparison(FIELDS[2], low=-0.1, fixed=3, broken=1, old=None))
    pair = Comparison("set/old/v1", "set/new/v1", rows, ("longer",), n_common=10)
    assert printed_lines(70, lambda: print_pairs([pair], by_slice=False, wide=True)) == [
        "set/old/v1 → set/new/v1: 10 samples in both",
        "set/new/v1 is better than set/old/v1: rouge_l.recall went from 0.500",
        "to 0.600 (+0.100, 95 % interval +0.050 to +0.150, 10 samples).",
        "rouge_l.recall  better",
        "  samples 10   old 0.500   new 0.600",
        "  difference [95 % interval] +0.100 [+0.050, +0.150]",
        "  p adjusted 0.002   detectable 0.040",
        "exact_match.match  not shown to differ",
        "  samples 10   new 0.600",
        "  difference [95 % interval] +0.100 [-0.100, +0.150]",
        "  p adjusted 0.002   detectable 0.040   fixed/broken 3/1",
        "",
        "detectable: the smallest true difference that these samples show with",
        "a power of 80 %",
        "Corrected for comparing 2 fields at once (Holm)",
        "! longer",
    ]


def test_how_many_samples_it_takes_is_explained_where_it_is_said(printed_lines):
    rows = (field_comparison(), field_comparison(FIELDS[2], low=-0.1, needed=1234))
    printed = printed_lines(
        200, lambda: print_pairs([Comparison("a", "b", rows, (), n_common=10)], by_slice=False, wide=True)
    )
    place = next(at for at, line in enumerate(printed) if line.startswith("detectable: "))
    assert printed[place + 1].startswith("needed: about how many samples would show a difference of the size ")
    printed = printed_lines(
        200, lambda: print_pairs([Comparison("a", "b", rows[:1], (), n_common=10)], by_slice=False, wide=True)
    )
    assert not any(line.startswith("needed: ") for line in printed)


@pytest.mark.parametrize(("width", "lines_a_field"), [(80, 2), (100, 2), (200, 1)])
def test_a_comparison_is_a_table_where_a_terminal_is_no_narrower_than_80(printed_lines, width, lines_a_field):
    rows = [
        field_comparison(name, low=-0.1, fixed=3, broken=1) for name in (LONG, "ground_truth_similarity.similarity")
    ]
    rows.append(field_comparison("rouge_l.recall", n_common=8))
    pair = Comparison("set/old/v1", "set/new/v1", tuple(rows), (), n_common=10)
    printed = printed_lines(width, lambda: print_pairs([replace(pair, rows=tuple(rows[:2]))], by_slice=False))
    assert max(map(len, printed)) <= width
    rule = next(at for at, line in enumerate(printed) if set(line.strip()) == {"─"})
    assert printed[rule - 1].split()[:3] == ["field", "old", "new"] and printed[rule - 1].endswith("finding")
    first, end = printed[rule + 1], printed.index("", rule)
    assert first.split()[1:5] == ["0.500", "0.600", "+0.100", "[-0.100,"] and end - rule - 1 == 2 * lines_a_field
    assert "p adjusted" not in "".join(printed) and "fixed/broken" not in "".join(printed)
    # How many samples there are is said where a field does not have all.
    assert " samples " in "".join(printed_lines(200, lambda: print_pairs([pair], by_slice=False))[2:5])


def test_history_leaves_out_the_plot_and_no_number(printed_lines):
    made = ReportPoint("set/a/v1", "a", 1, "2026-01-01 00:00", "0123", "COMPLETE", "f.g", 1000, 1000, 0.5, 0.4, 0.6, 1)
    lines = printed_lines(80, lambda: print_history("f.g", {"set": [made]}, as_json=False))
    assert max(map(len, lines)) <= 80
    assert "0.500  0.400 to 0.600  1,000/1,000" in lines[3] and lines[3].split()[0] == "a/v1"
    wide = printed_lines(120, lambda: print_history("f.g", {"set": [made]}, as_json=False))
    assert "●" in wide[3]
