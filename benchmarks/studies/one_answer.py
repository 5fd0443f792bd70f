"""The functions of ours that one judged answer passes, by module.

    python benchmarks/studies/one_answer.py

One answer is judged before, so that what a process does once is not counted. Then a profile hook on every thread
collects the functions of `metrics_core`, `tasks` and `flows`, nested ones and comprehensions too, while `meaning_match`
asks a judge on loopback about one answer. Opening and closing the ledger and the client is included.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType

from answerkey import JudgeOptions, Sample, evaluate
from answerkey.metrics_core.llm.access import Access

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.judge_brains import agreeable  # noqa: E402
from tests.judge_server import JudgeServer  # noqa: E402

OURS = ("metrics_core", "tasks", "flows")


def judge(server: JudgeServer, number: int) -> None:
    """Ask the judge about one answer, which is not decided without it."""
    sample = Sample(f"s{number}", f"It has {number} moons", [f"{number} moons orbit it"], f"Which planet is {number}?")
    options = JudgeOptions(judges=(f"openai/judge@{server.url}",), check="never")
    evaluate([sample], ["meaning_match"], judge=options, access=Access(api_key="sk-loopback"))


def passed(server: JudgeServer) -> dict[str, set[str]]:
    """The names of the functions by module."""
    seen: set[CodeType] = set()
    counting = False

    def hook(frame: FrameType, event: str, _argument: object) -> None:
        if counting and event == "call":
            seen.add(frame.f_code)

    # Before the first answer, which starts the thread that all calls to models run on.
    threading.setprofile(hook)
    sys.setprofile(hook)
    judge(server, 1)
    counting = True
    judge(server, 2)
    counting = False
    sys.setprofile(None)
    functions: dict[str, set[str]] = defaultdict(set)
    for code in seen:
        file = Path(code.co_filename).resolve()
        if file.is_relative_to(ROOT) and (module := file.relative_to(ROOT)).parts[0] in OURS:
            functions[str(module)].add(code.co_qualname.replace(".<locals>", ""))
    return functions


def main() -> None:
    """Print how many there are, and which."""
    with JudgeServer(agreeable) as server:
        functions = passed(server)
        requests = server.n_requests
    everything = [name for names in functions.values() for name in names]
    named = sum("<" not in name for name in everything)
    print(f"{len(everything)} functions, {named} of them with a name, in {len(functions)} modules; {requests} requests")
    for module, names in sorted(functions.items()):
        print(f"{module} ({len(names)}): {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
