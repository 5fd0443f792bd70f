"""Hooks of the documentation site: pages from outside of `docs`, pages made of the code, and the links to them."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import make_cli
import make_python
import make_schema

_ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = {"README.md": "index.md", "deployments/README.md": "deployments.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository, and what they are called on the site."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\((\w+)\.png\)")
_FILES = "files/"
"""Where the site has files of the repository that are linked and no pages."""
_LONGEST = 160
_pages: list[tuple[str, str, str, str]] = []
"""Title, address, description and Markdown of each page, for those who read no HTML."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the commands in the menu, and say at the foot of each page which version it is about."""
    reference = next(part["Reference"] for part in config.nav or () if "Reference" in part)
    commands = sorted(make_cli.pages())
    reference[-1] = {"Command line": ["cli/index.md", *(one for one in commands if one != "cli/index.md")]}
    config.copyright = f"answerkey {version('answerkey')}, Apache-2.0"
    _pages.clear()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs. The menu of the site takes the place of docs/README.md."""
    files.remove(files.src_uris["README.md"])
    for source, name in _OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(_ROOT / source)))
    made = {"schema.md": make_schema.reference(), "python.md": make_python.reference(), **make_cli.pages()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    for document in (*_OUTSIDE, *(f"docs/{path.name}" for path in (_ROOT / "docs").glob("*.md"))):
        text = (_ROOT / document).read_text(encoding="utf-8")
        for _, target, _anchor in _LINK.findall(text):
            path = ((_ROOT / document).parent / target).resolve()
            name = _FILES + path.relative_to(_ROOT).as_posix()
            if path.is_file() and path.suffix not in (".md", ".png") and name not in files.src_uris:
                files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Describe the page by its first sentences, and turn links between files into links between pages."""
    described = page.meta["description"] = _description(markdown)
    about = (str(page.title), page.file.src_uri, described)
    if page.file.src_uri.startswith("cli/"):
        _pages.append((*about, markdown))
        return markdown
    names = {one: source for source, one in _OUTSIDE.items()}
    folder = (_ROOT / names.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent

    def link(found: re.Match[str]) -> str:
        text, file, anchor = found[1], found[2], found[3] or ""
        source = (folder / file).resolve().relative_to(_ROOT).as_posix()
        name = _OUTSIDE.get(source, "index.md" if source == "docs/README.md" else source.removeprefix("docs/"))
        for there in (name, _FILES + source):
            if there in files.src_uris:
                return f"[{text}]({there}{anchor})"
        return text

    def picture(found: re.Match[str]) -> str:
        alt, name = found.groups()
        if f"{name}-dark.png" not in files.src_uris:
            return found[0]
        return f"![{alt}]({name}.png#only-light)\n![{alt}]({name}-dark.png#only-dark)"

    linked = _LINK.sub(link, markdown)
    _pages.append((*about, linked))
    return _PICTURE.sub(picture, linked)


def on_post_build(config: MkDocsConfig) -> None:
    """Write each page as Markdown, and llms.txt, the list of them that language models read: https://llmstxt.org."""
    lines = []
    for title, address, about, markdown in _pages:
        # A page of directives says nothing as it stands.
        page = address.removesuffix(".md") + ".html" if ":::" in markdown else address
        lines.append(f"- [{title}]({page}): {about}")
        if page == address:
            (Path(config.site_dir) / page).write_text(markdown, encoding="utf-8")
    text = f"# {config.site_name}\n\n> {config.site_description}\n\n## Pages\n\n" + "\n".join(lines) + "\n"
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")


def _description(markdown: str) -> str:
    """The first paragraph of a page without markup, up to the end of a sentence or word."""
    paragraphs = (part.strip() for part in re.split(r"\n\s*\n", markdown))
    first = next((part for part in paragraphs if part and part[0] not in "#!|`<:-*"), "")
    plain = " ".join(re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", r"\1", first).split())
    if len(plain) <= _LONGEST:
        return plain
    sentences = re.match(rf".{{40,{_LONGEST}}}[.!?](?= )", plain)
    return sentences[0] if sentences else plain[:_LONGEST].rpartition(" ")[0] + " …"
