"""Whether a Prefect server is configured, found out without importing Prefect, which takes a second."""

from __future__ import annotations

import os
from pathlib import Path


def has_server() -> bool:
    """Whether the environment, or the user's Prefect profile, names a server."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = folder / "profiles.toml"
    return profiles.is_file() and "PREFECT_API_URL" in profiles.read_text(encoding="utf-8")
