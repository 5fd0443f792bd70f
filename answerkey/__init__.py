"""Score answers against answers known to be right, and decide whether a release may ship.

`flows`, `tasks` and `metrics_core` are links to the folders of those names at the top of the repository: whoever
installs answerkey beside their own Prefect project has packages called `flows` and `tasks` already.
"""
