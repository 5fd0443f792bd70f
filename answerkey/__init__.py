"""Score answers against answers known to be right, and decide whether a release may ship.

`flows`, `tasks`, `metrics_core`, `deployments` and `examples` are links to the folders of those names at the top of the
repository: whoever installs answerkey beside their own Prefect project has packages called `flows` and `tasks` already.
"""
