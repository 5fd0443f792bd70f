"""Prefect flows, their parameters, and the command line."""

from answerkey.flows.environment import quiet

# Libraries read these switches when they are imported, and every entry into the product comes by here first.
quiet()
