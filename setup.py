"""The packages: each folder at the top is built as a part of `answerkey`, so that what is installed has one name.

The links in `answerkey/` are for editors and type checkers. No build reads them: a copy of the repository that has lost
them, such as an unpacked zip file, installs as any other.
"""

from setuptools import find_namespace_packages, setup

FOLDERS = ("deployments", "examples", "flows", "metrics_core", "tasks")

setup(
    packages=[
        "answerkey",
        *(
            f"answerkey.{package}"
            for folder in FOLDERS
            for package in find_namespace_packages(include=[folder, f"{folder}.*"], exclude=["*.__pycache__"])
        ),
    ],
    package_dir={"answerkey": "answerkey", **{f"answerkey.{folder}": folder for folder in FOLDERS}},
)
