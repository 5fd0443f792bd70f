"""The page of the documentation site about the command line, made of the commands themselves."""

from answerkey.flows.cli.main import EXIT_CODES, make_app


def reference() -> str:
    """The page: what `--help` says of every command, and what the exit codes mean."""
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    text = make_app().generate_docs().replace("# answerkey\n", "# Command line reference\n", 1)
    return f"{text.strip()}\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n"
