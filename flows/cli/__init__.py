"""The command line: what may be typed, what each command does, and the servers that it starts."""

from answerkey.flows.cli.main import main

__all__ = ["main"]
