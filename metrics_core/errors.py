"""The one error that a user can mend."""

from __future__ import annotations


class UserError(Exception):
    """The input cannot be used as it is. The message is one line: what, where, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """
