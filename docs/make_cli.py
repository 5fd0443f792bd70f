"""Writes docs/cli.md from the commands themselves: `make cli-reference`."""

from pathlib import Path

from answerkey.flows.cli.main import EXIT_CODES, make_app

FILE = Path(__file__).with_name("cli.md")


def reference() -> str:
    """The page: what `--help` says of every command, and what the exit codes mean."""
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    text = make_app().generate_docs().replace("# answerkey\n", "# Command line reference\n", 1)
    return (
        f"{text.strip()}\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n\n"
        "<!-- Made by docs/make_cli.py; do not edit. -->\n"
    )


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
