"""The forms of the Prefect UI, which are the arguments of the command line too: one model a part of a form."""
