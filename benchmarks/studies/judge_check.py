"""What the check of judges is worth: which judges it stops, how often falsely, and how many questions are wrong.

    python benchmarks/studies/judge_check.py judges                 # judges that nobody should believe, over HTTP
    python benchmarks/studies/judge_check.py rates                  # the same, how often of 1,000: by the rule alone
    python benchmarks/studies/judge_check.py labels DATA [--show]   # generated questions on public sets

`judges` and `rates` ask about rows of three scripts, of which half are right, made of the words below. `labels`
makes questions of public sets, once with all references and once with the first one alone, and looks how many answers
that must not match contain the words of a reference, or of a short answer that people called right.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

# tests/ holds the scripted server; the study runs from a checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from answerkey import JudgeOptions, Sample
from answerkey.metrics_core.decide.intervals import clopper_pearson
from answerkey.metrics_core.judges.check import ERROR, checked, failed_group, groups_of
from answerkey.metrics_core.judges.known_answer import ORDER, KnownAnswer, generated, shipped
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.text import words
from tests.judge_brains import Brain, garbage
from tests.judge_server import JudgeServer

_SIZES = (15, 49, 300)
_RUNS = 1_000
_THINGS = {
    "LATIN": "lighthouse bridge clock organ ferry mill tower library fountain theatre tram harbour gate",
    "CYRILLIC": "маяк мост колокол орган паром мельница башня библиотека фонтан театр трамвай порт ворота",
    "CJK": "灯塔 石桥 古钟 风琴 渡船 水车 塔楼 书院 喷泉 剧场 电车 港口 城门",
}  # fmt: skip
_QUESTIONS = {
    "LATIN": {
        "Who repaired the {}?": "Marta Lindqvist, Jonas Eriksen, Noor Haddad, Felix Brandt, Ingrid Solberg",
        "In which year was the {} opened?": "1874, 1931, 1958, 1889, 1902",
        "What is the {} made of?": "yellow sandstone, oak, cast iron, brick, copper",
        "Which animal lives in the {}?": "a barn owl, bats, an otter, swallows, a stray cat",
        "How heavy is its {}?": "14 tonnes, 620 kilograms, 3 tonnes, 75 kilograms, 41 tonnes",
    },
    "CYRILLIC": {
        "Кто починил {}?": "Ольга Демидова, Тимур Каримов, Лев Громов, Анна Белова, Павел Ильин",
        "В каком году появился {}?": "1874, 1931, 1958, 1889, 1902",
        "Из чего сделан {}?": "песчаник, дуб, чугун, кирпич, медь",
        "Какое животное живёт там, где {}?": "сова, летучие мыши, выдра, ласточки, кошка",
        "Сколько весит {}?": "14 тонн, 620 килограммов, 3 тонны, 75 килограммов, 41 тонна",
    },
    "CJK": {
        "谁修好了{}？": "王海燕, 李志强, 陈小梅, 赵建国, 周文静",
        "{}建于哪年？": "1874, 1931, 1958, 1889, 1902",
        "{}用什么材料做成？": "黄砂岩, 橡木, 铸铁, 砖头, 红铜",
        "哪种动物住在{}里？": "仓鸮, 蝙蝠, 水獭, 燕子, 流浪猫",
        "{}有多重？": "14吨, 620公斤, 3吨, 75公斤, 41吨",
    },
}


def main() -> None:
    """Print one of the tables."""
    logging.getLogger("answerkey").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("judges", "rates", "labels"))
    parser.add_argument("data", nargs="?", type=Path, help="folder of the public sets")
    parser.add_argument("--show", action="store_true", help="print the questions that may be wrong")
    chosen = parser.parse_args()
    if chosen.what == "labels":
        labels(chosen.data, show=chosen.show)
    else:
        (judges if chosen.what == "judges" else rates)()


def rows_of(n: int) -> tuple[list[Sample], dict[tuple[str, str], bool]]:
    """Rows of the three scripts in turn, and by question and answer whether they are right: half of them are."""
    rows, right = [], dict[tuple[str, str], bool]()
    for number in range(n):
        script = list(_THINGS)[number % 3]
        things, questions = _THINGS[script].split(), list(_QUESTIONS[script].items())
        place = number // 3
        question, references = questions[place % 5]
        of_question, thing = references.split(", "), place // 5 % len(things)
        reference, other = of_question[thing % 5], of_question[(thing + 1) % 5]
        row = Sample(
            f"{number}", f"{other if number % 2 else reference} ({number})", [reference], question.format(things[thing])
        )
        rows.append(row)
        right[row.question or "", row.answer or ""] = number % 2 == 0
    return rows, right


def _asked(n: int) -> tuple[list[Sample], tuple[KnownAnswer, ...], Callable[[str, str], bool]]:
    """Rows, the questions of a run with them, and who knows the answers to both."""
    rows, right = rows_of(n)
    asked = MeaningMatch().known_answers(rows)
    right |= {(known.sample.question or "", known.sample.answer or ""): known.least == 1.0 for known in asked}
    return rows, asked, lambda question, answer: right[question, answer]


def _brains(right: Callable[[str, str], bool], seed: int = 0) -> dict[str, Brain]:
    return garbage(right, {question.sample.answer for question in shipped("meaning_match")}, seed)


def judges() -> None:
    """For each judge and size: whether it was stopped over HTTP, else how many verdicts are wrong."""
    for size in _SIZES:
        rows, asked, right = _asked(size)
        print(f"{size} rows, {len(asked)} questions before them")
        for name, brain in _brains(right).items():
            with JudgeServer(brain) as server:
                options = JudgeOptions(judges=(f"openai/{name.replace(' ', '-').replace('%', 'pc')}@{server.url}",))
                found = checked(MeaningMatch(options, access=Access(api_key="none")), rows).measure(rows)
                calls = server.n_requests
            scored = [
                one.values["match"] == float(right(row.question or "", row.answer or ""))
                for row, one in zip(rows, found, strict=True)
                if one.status == "scored"
            ]
            outcome = f"{len(scored)} scored, {scored.count(False)} wrong" if scored else "stopped"
            print(
                f"  {name:26} {calls:4} calls  {outcome:26} {_counts(asked, brain) if name != 'echo' else ''}",
                flush=True,
            )


def rates() -> None:
    """For each judge and size: the share of runs in which it is stopped before the first row, of many seeds."""
    for size in _SIZES:
        _, asked, right = _asked(size)
        stopped = Counter[str]()
        for seed in range(_RUNS):
            for name, brain in _brains(right, seed).items():
                stopped[name] += name != "echo" and failed_group(groups_of(asked), _answered(asked, brain)) is not None
        print(
            f"{size} rows, {len(asked)} questions: "
            + ", ".join(f"{name} {n / _RUNS:.3f}" for name, n in stopped.items())
        )
    for scripts, n_questions in ((1, 6), (1, 17), (3, 5), (4, 4)):
        questions = [*shipped("meaning_match"), *_same(scripts, n_questions)]
        rng, groups, runs = random.Random(1), groups_of(questions), 20 * _RUNS
        n = sum(
            failed_group(groups, [(question, rng.random() >= ERROR) for question in questions]) is not None
            for _ in range(runs)
        )
        print(f"right on 95 %, {scripts} script(s), {n_questions} of each verdict: stopped in {n} of {runs:,} runs")


def _same(scripts: int, n: int) -> Iterator[KnownAnswer]:
    for script in list(_THINGS)[:scripts]:
        for number in range(n):
            for match in (0.0, 1.0):
                yield KnownAnswer("any", Sample(f"{number}", "answer", ["reference"], "question"), match, match, script)


def _answered(asked: Sequence[KnownAnswer], brain: Brain) -> list[tuple[KnownAnswer, bool]]:
    """The questions, each with whether a judge is right about it."""
    answered = []
    for question in asked:
        fields = {"question": question.sample.question, "references": [{}], "answer": question.sample.answer}
        fence = f"<data-{'0' * 32}>\n{json.dumps(fields)}\n</data-{'0' * 32}>"
        reply = json.loads(str(brain({"messages": [{"role": "user", "content": fence}]})))
        answered.append((question, (reply["verdict"] == "match") == (question.least == 1.0)))
    return answered


def _counts(asked: Sequence[KnownAnswer], brain: Brain) -> str:
    """What the report says of a judge: how often it is right, by verdict, with intervals."""
    parts = []
    for verdict in (0.0, 1.0):
        rights = [right for question, right in _answered(asked, brain) if question.least == verdict]
        interval = clopper_pearson(sum(rights), len(rights))
        of = f"{interval.low:.0%} to {interval.high:.0%}" if interval else "not tested"
        parts.append(f"known to be {verdict:g}: {sum(rights)} of {len(rights)} ({of})")
    return "; ".join(parts)


def labels(folder: Path, *, show: bool) -> None:
    """For each public set: of the generated answers that must not match, how many may be right after all."""
    for file in sorted(folder.glob("*/*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        questions: dict[str, list[str]] = {}
        right: dict[str, list[str]] = {}
        for row in rows:
            if row.get("question") and row.get("references") and "references" in row:
                questions[row["question"]] = [text for text in row["references"] if text]
                if row.get("human_label") in (1, True, "true") and row.get("answer"):
                    right.setdefault(row["question"], []).append(row["answer"])
        made, doubtful = Counter[str](), Counter[str]()
        for held_out in (False, True):
            for known in _of_set(questions, held_out=held_out):
                question = known.sample.question or ""
                kind = f"{known.name}{', with one reference' if held_out else ''}"
                made[kind] += 1
                if any(_says(known, text) for text in questions[question]) or any(
                    _says(known, text) for text in right.get(question, ()) if len(words(text)) <= 5
                ):
                    doubtful[kind] += 1
                    if show:
                        print("   ", kind, "|", question, "|", questions[question][:4], "|", known.sample.answer)
        print(file.stem, {kind: f"{doubtful[kind]} of {n}" for kind, n in sorted(made.items())}, flush=True)


def _of_set(questions: dict[str, list[str]], *, held_out: bool) -> Iterator[KnownAnswer]:
    """Answers that must not match, of runs with 40 questions each."""
    order = sorted(question for question, references in questions.items() if references)
    random.Random(7).shuffle(order)
    for first in range(0, len(order), 40):
        of_run = order[first : first + 40]
        rows = [Sample(one, "", questions[one][: 1 if held_out else None], one) for one in of_run]
        of_data = [known for known in generated(rows) if known.script]
        yield from (known for known in of_data if known.most == 0.0 and known.name != ORDER)


def _says(question: KnownAnswer, text: str) -> bool:
    """Whether the answer contains all words of a text, beside those of the question and of the references it knows."""
    own = Counter(words(f"{question.sample.question} It is not the answer is"))
    answer = set(Counter(words(question.sample.answer or "")) - own)
    others = set(words(text)) - set(own)
    return bool(others) and others <= answer and question.name != "the reference, denied"


if __name__ == "__main__":
    main()
