"""Publish: Prefect artifacts and events, and the HTML page."""
