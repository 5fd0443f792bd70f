"""The command line: options, commands, and the servers that they start."""

from answerkey.flows.cli.main import main

__all__ = ["main"]
