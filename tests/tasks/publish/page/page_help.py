"""Pages made of values alone, of any size and with any text, and the same rows in a warehouse."""

from dataclasses import replace
from html.parser import HTMLParser

from answerkey.metrics_core.comparison import Comparison, FieldComparison
from answerkey.metrics_core.decide.verdict import RuleOutcome, Verdict
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.model import (
    Answers,
    FieldSummary,
    Page,
    Release,
    Samples,
    Warning,
)
from answerkey.tasks.publish.table import Cell, Table, estimate
from answerkey.tasks.reports.report import Report, ReportPoint, Score
from answerkey.tasks.validate.validate import Check

FIELDS = ("rouge_l.recall", "rouge_l.f1", "exact_match.match")
SIGNATURES = {"rouge_l": "rouge_l|v1|refs:best", "exact_match": "exact_match|v1"}
FACTS = [
    {"side": "reference", "id": "r1.1", "fact": "born in 1867", "status": "contradicted", "with": "a1"},
    {"side": "reference", "id": "r1.2", "fact": "born in Warsaw", "status": "missing", "with": None},
    {"side": "reference", "id": "r1.3", "fact": "a physicist", "status": "matched", "with": "a2"},
    {"side": "answer", "id": "a1", "fact": "born in 1866", "status": "contradicted", "with": "r1.1"},
    {"side": "answer", "id": "a2", "fact": "worked as a physicist", "status": "matched", "with": "r1.3"},
    {"side": "answer", "id": "a3", "fact": "father taught", "status": "extra", "with": None},
]


NOTHING = Table("", (), ())


def score(name, mean, slice_="all", n=10, failed=0):
    metric, _, field = name.partition(".")
    low, high = (None, None) if mean is None else (max(0.0, mean - 0.1), min(1.0, mean + 0.1))
    scored = n - failed
    return Score(
        metric, field, slice_, n, scored, failed, 0, 0, scored / n, mean, low, high, "t",
        (mean or 0.0) * scored / n, ((mean or 0.0) * scored + failed) / n,
    )  # fmt: skip


def report(release, means=(0.5, 0.4, 0.3), version=1, **changes):
    """A report of ten rows on the data set `set`, with the slice `lang=en`."""
    scores = [
        score(name, mean, slice_) for slice_ in ("all", "lang=en") for name, mean in zip(FIELDS, means, strict=True)
    ]
    manifest = {
        "run_id": "run", "rows": {"read": 20, "accepted": 20, "quarantined": 0}, "signatures": dict(SIGNATURES),
        "seed": 1, "versions": {"answerkey": "0.1.0", "python": "3.11"}, "code": "abc", "notes": ["a note"],
        "answers_version": "def", "n_rows": 10, "parameters": {"data": {"answers": "a.jsonl"}},
    }  # fmt: skip
    made = Report(
        f"set/{release}/v{version}", "set", "0123456789ab", release, version, "2026-01-01 00:00:00 UTC", "COMPLETE",
        None, "def", "run", manifest, tuple(scores), (), (),
    )  # fmt: skip
    return replace(made, **changes)


def release(name, means=(0.5, 0.4, 0.3), **changes):
    return Release(name, report(name, means, **changes), "answerkey evaluate a.jsonl", 20.0)


def field_comparison(name=FIELDS[0], **changes):
    metric, _, field = name.partition(".")
    made = FieldComparison(
        metric, field, "all", 10, 0, 0, 0.5, 0.6, 0.1, 0.05, 0.15, 0.001, 0.002, 0.04, None, None,
        "sign-flip",
    )  # fmt: skip
    return replace(made, **changes)


RULE = RuleOutcome("rouge_l.recall >= -0.02", "FAIL", "It lost 0.1.", -0.1, -0.15, -0.05, 10)
VERDICT = ReleaseVerdict(
    "old",
    "new",
    parse_policy({"primary": FIELDS[0], "margin": 0.02}, "x"),
    Verdict("FAIL", "New loses more than the margin.", (RULE,)),
)


def page(n=4, names=("old", "new"), text=None):
    """A page about the releases `names` and `n` samples; `text(kind, place)` makes every text that data can bring."""
    say = text or (lambda kind, place: f"{kind} {place}")
    releases = tuple(release(name, (0.5 + turn / 10, 0.4, 0.3)) for turn, name in enumerate(names))
    return Page(
        dataset="set",
        made_at="2026-01-01 00:00 UTC",
        primary=FIELDS[0],
        why_primary="",
        headlines=(FIELDS[0], FIELDS[2]),
        fields=tuple(_field(name) for name in FIELDS),
        releases=releases,
        gates=(),
        summary=say("summary", 0),
        warnings=(Warning(True, say("warning", 0), (say("line", 0), say("line", 1))), Warning(False, "a note")),
        comparisons=(),
        failures=Table(
            "Why rows have no score",
            ("metric", "release", "status", "rows", "reason"),
            [("rouge_l", names[-1], "failed", "1", say("failure", 0))],
            left=("release", "status", "reason"),
        ),
        checks=(
            Check("length_drift", "warning", False, 1, 1, say("check", 0), names[-1]),
            Check("not_empty", "critical", True, 20, 0, "20 rows"),
        ),
        n_quarantined=1,
        quarantine=Table(
            "Quarantine",
            ("row", "sample", "release", "rule", "problem", "original row"),
            [("3", say("id", -1), names[-1], "encoding", say("reason", 0), Cell(say("raw", 0), kind="raw"))],
            left=("sample", "release", "rule", "problem", "original row"),
        ),
        agreements=NOTHING,
        corrected=NOTHING,
        history=tuple(_moment(one, turn, name) for turn, one in enumerate(names) for name in (FIELDS[0], FIELDS[2])),
        samples=samples(n, names, say),
    )


def samples(n, names, say):
    """Sample i scores i / n in the first release; the second swaps best and worst. The last one has no score in it."""
    return Samples(
        n_total=n,
        ids=tuple(say("id", place) for place in range(n)),
        questions=tuple(say("question", place) for place in range(n)),
        references=tuple((say("reference", place), say("other reference", place)) for place in range(n)),
        facts=tuple((say("fact", place),) for place in range(n)),
        incorrect_references=tuple((say("wrong reference", place),) for place in range(n)),
        slices={"lang": tuple(("en", "ru")[place % 2] for place in range(n))},
        answers=tuple(_answers(n, turn, name, say) for turn, name in enumerate(names)),
    )


def _answers(n, turn, name, say):
    def value(place):
        if turn and place == n - 1:
            return None
        return round((n - 1 - place if turn else place) / max(1, n - 1), 4)

    return Answers(
        release=name,
        texts=tuple(say(f"answer of {name}", place) for place in range(n)),
        correct=tuple((place + turn) % 3 == 0 if place % 4 else None for place in range(n)),
        values={name: tuple(value(place) for place in range(n)) for name in FIELDS},
        unscored={
            **({"rouge_l": {n - 1: ("failed", say("why", 0))}} if turn else {}),
            "exact_match": {1: ("failed", say("timeout: no reply", 1))},
        },
        reasons={"exact_match": {0: say("judge", 0)}},
        evidence={
            "rouge_l": {0: {"facts": [{**fact, "fact": say(fact["fact"] or "", 0)} for fact in FACTS]}},
        },
        contexts={1: (say(f"passage of {name}", 1), say("further passage", 1))},
    )


def _moment(one, turn, name):
    made = f"2026-01-0{turn + 1} 00:00"
    return ReportPoint(f"set/{one}/v1", one, 1, made, "0123456789ab", "COMPLETE", name, 10, 10, 0.5, 0.4, 0.6, 1)


def _field(name):
    metric = name.partition(".")[0]
    return FieldSummary(name, metric, f"what {metric} is", (SIGNATURES[metric],), metric == "exact_match")


def full():
    """A page with something in each of its parts."""
    rows = (
        field_comparison(people=-0.04, people_low=-0.09, people_high=0.01, n_labelled=120),
        field_comparison(
            FIELDS[1], difference=-0.1, low=-0.2, high=-0.05, test="mcnemar", fixed=3, broken=1, n_only_old=1234,
            missing_new={"failed": 1200, "absent": 34}, n_only_new=1,
        ),
        field_comparison("bleu.bleu", difference=None, note="only old has it", test=""),
        field_comparison(slice="lang=en", low=-0.1, needed=900, n_clusters=5, n_common=5),
        field_comparison(slice="lang=ru", test="another"),
        field_comparison(FIELDS[1], slice="lang=en", mde=None, mde_note="no difference can be shown"),
    )  # fmt: skip
    comparisons = (
        Comparison("old", "mid", (), (), None, "the signatures differ"),
        Comparison("old", "new", rows, ("longer answers",), margin=0.02, n_pairs=2),
    )
    passed = ReleaseVerdict("old", "mid", VERDICT.policy, Verdict("PASS", "It may ship.", basis="judge"))
    half = estimate(0.5, 0.4, 0.6)
    means = [(FIELDS[0], "new", estimate(0.61, 0.6, 0.62), estimate(0.55, 0.5, 0.6), "20", "30", "PPI++")]
    agreed = [(FIELDS[0], name, "40", half, estimate(0.8, 0.7, 0.9), half, Cell("–")) for name in ("all", "new")]
    generation = {
        "model": "openai/<b>", "temperature": 0.7, "seed": 3, "max_tokens": 2048, "not_taken": ["seed"],
        "answered": 1999, "questions": 2000, "made_at": "2026-01-01T00:00:00+00:00", "system": "",
        "template": "In {lang}:\n{question}</pre>",
    }  # fmt: skip
    judge = {
        "judges": ["openai/m"], "about": "offline matcher v1, kappa 0.82 with people", "cascade": 0.02,
        "jury": "majority", "repeats": 3, "calls": 1200, "cost_usd": 0.5, "by_judge": [{
            "judge": "openai/m", "calls": 1200, "tokens_in": 90000, "tokens_out": 4000, "cost_usd": 0.5,
            "reserved_usd": 0.0,
        }],
    }  # fmt: skip
    made = page(3, names=("old", "mid", "new"))
    old, mid, new = made.releases
    fewer = replace(new.report, scores=(score(FIELDS[0], 0.5, failed=4), score(FIELDS[1], 0.4)))
    fewer = replace(fewer, manifest={**fewer.manifest, "generation": generation, "judge": judge})
    return replace(
        made,
        releases=(old, mid, replace(new, report=fewer, command="answerkey evaluate other.jsonl")),
        gates=(passed, VERDICT),
        comparisons=comparisons,
        agreements=Table(
            "Agreement with human labels",
            ("metric", "release", "labels", "kappa", "sensitivity", "specificity", "bias"),
            agreed,
        ),
        corrected=Table(
            "Corrected means",
            ("metric", "release", "as scored", "in human labels", "labelled", "not labelled", "method"),
            means,
        ),
        data_docs="../_data-docs/index.html",
        overview="../index.html",
    )


class Elements(HTMLParser):
    """Every start tag of a page with its attributes, the text of scripts and styles, and all other text."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.found, self.raw, self.texts = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in _MARKS:
            self.texts.append(_MARKS[tag] + ("(open) " if ("open", None) in attrs else ""))

    def handle_data(self, data):
        if self.cdata_elem:
            self.raw.append((self.cdata_elem, data))
        else:
            self.texts.append(data)


_MARKS = {
    **{name: f"\n{sign} " for name, sign in (("h1", "#"), ("h2", "##"), ("h3", "###"), ("details", ">"), ("li", "-"))},
    **{name: " | " for name in ("th", "td")}, **{name: " " for name in ("small", "code", "span", "text", "dd")},
    "tr": "\n", "dt": "\n",
}  # fmt: skip


def text_of(html):
    """What a page says, without its plots' places: a line for each line of the template, row and heading."""
    text = "".join(Elements(html).texts)
    return "".join(f"{' '.join(line.split())}\n" for line in text.splitlines() if line.split())
