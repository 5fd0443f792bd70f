"""`answerkey completion`: scripts that complete commands and options in a shell."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(metavar="SHELL", help="Which shell.")], /
) -> int:
    """Print the script that completes commands and options in a shell.

    Examples:
        answerkey completion bash > ~/.local/share/bash-completion/completions/answerkey
    """
    from answerkey.flows.cli.main import make_app

    print(make_app().generate_completion(shell=shell))
    return 0
