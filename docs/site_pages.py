"""Hooks of the documentation site: pages from outside of `docs`, pages made of the code, and the links to them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import make_cli
import make_schema

_ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = {"README.md": "index.md", "deployments/README.md": "deployments.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository, and what they are called on the site."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs. The menu of the site takes the place of docs/README.md."""
    files.remove(files.src_uris["README.md"])
    for source, name in _OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(_ROOT / source)))
    files.append(File.generated(config, "cli.md", content=make_cli.reference()))
    files.append(File.generated(config, "schema.md", content=make_schema.reference()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages; of files without a page, the text stays."""
    names = {one: source for source, one in _OUTSIDE.items()}
    folder = (_ROOT / names.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent

    def link(found: re.Match[str]) -> str:
        text, file, anchor = found[1], found[2], found[3] or ""
        source = (folder / file).resolve().relative_to(_ROOT).as_posix()
        name = _OUTSIDE.get(source, "index.md" if source == "docs/README.md" else source.removeprefix("docs/"))
        return f"[{text}]({name}{anchor})" if name in files.src_uris else text

    return _LINK.sub(link, markdown)
