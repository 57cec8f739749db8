"""MkDocs hooks: generated pages of the documentation site, and links to files outside docs/.

The pages in docs/ are also read on GitHub, where links to ../CONTRIBUTING.md or ../examples work. The site
has a page under source/ for each linked file, and for the files that this file links to.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, relpath

import griffe
from markdown import Extension, Markdown
from markdown.blockprocessors import build_block_parser
from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINKED_IN_NAVIGATION = (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
CODE = {".json": "json", ".jsonl": "json", ".py": "python", ".toml": "toml"}
COMMANDS = """# Commands

What `live-eval COMMAND --help` prints.

::: mkdocs-click
    :module: live_eval.cli
    :command: cli
    :prog_name: live-eval
    :depth: 1
    :list_subcommands: true
"""
PYTHON = {
    "runs": ("Recorded runs", "live_eval.open_run", "live_eval.export.RecordedRun"),
    "types": ("Types and errors", "live_eval.types", "live_eval.errors"),
    "endpoints": (
        "Endpoint plugins",
        "live_eval.dialect",
        "live_eval.transport",
        "live_eval.clients.toolkit",
    ),
    "judges": ("Judge plugins", "live_eval.judging", "live_eval.judges.toolkit"),
    "speakers": (
        "Speakers and live conversations",
        "live_eval.session.speaker",
        "live_eval.live",
        "live_eval.live.updates",
    ),
    "testing": ("Testing", "live_eval.testing"),
}
"""Pages on public modules and names: title, then what is described."""
_log = logging.getLogger("mkdocs.docs_site")  # warnings below `mkdocs` are errors in a strict build
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)
_DIRECTIVE = re.compile(r" *# doctest: .*")
_LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=[#)])")


class _LikeGitHub(Extension):
    """Nest lists by two spaces, as on GitHub."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the interface of Python-Markdown
        md.tab_length = 2
        md.parser = build_block_parser(md)  # the existing parser has the old length


class FencedDoctests(griffe.Extension):
    """Mark doctests in docstrings as code: `>>>` is a quotation in Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Fence an object's doctests."""
        if obj.docstring is not None:
            code = _DIRECTIVE.sub("", obj.docstring.value)
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", code)


def on_config(config: MkDocsConfig) -> None:
    """Render lists as on GitHub."""
    # First, since other extensions extend the parser.
    config.markdown_extensions.insert(0, _LikeGitHub())


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add the generated pages."""
    made: dict[str, str | bytes] = {"generated/commands.md": COMMANDS, **_sources()}
    for name, (title, *described) in PYTHON.items():
        made[f"generated/{name}.md"] = "\n\n".join([f"# {title}", *(f"::: {each}" for each in described)])
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Redirect links to files outside docs/ to the pages under source/."""
    if page.file.generated_by is not None:
        return markdown
    return _relinked(markdown, DOCS / page.file.src_uri, page.file.src_uri)


def on_page_content(html: str, *, page: Page, **_: object) -> str:
    """Warn if the site renders a page's lists, tables or code differently from GitHub."""
    if page.file.generated_by is not None:
        return html.replace("<p>::</p>", "")  # docstrings mark text blocks in this way
    on_github = MarkdownIt("gfm-like", {"linkify": False}).render(page.markdown or "")
    for tag in ("li", "pre", "table"):
        here, there = (text.count(f"<{tag}>") + text.count(f"<{tag} ") for text in (html, on_github))
        if here != there:
            _log.warning(
                "%s: <%s> occurs %d times on the site, %d times on GitHub",
                page.file.src_uri,
                tag,
                here,
                there,
            )
    return html


def _sources() -> dict[str, str | bytes]:
    """Return the files under source/: Markdown pages, and other files unchanged."""
    sources: dict[str, str | bytes] = {}
    todo = [*LINKED_IN_NAVIGATION]
    for path in DOCS.rglob("*.md"):
        todo += _linked(path.read_text("utf-8"), path)
    while todo:
        path = todo.pop()
        uri = _uri(path)
        if DOCS in path.parents or uri in sources:
            continue
        if not uri.endswith(".md"):
            sources[uri] = path.read_bytes()
            continue
        original = _markdown(path)
        sources[uri] = _relinked(original, _file(path), uri)
        todo += _linked(original, _file(path))
    return sources


def _markdown(path: Path) -> str:
    """Return a repository file or folder as Markdown, with links relative to the file or folder."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        about = _file(path).read_text("utf-8") if _file(path).exists() else f"# {name}\n"
        listed = sorted(each for each in path.iterdir() if each.name[0] not in "._" and each != _file(path))
        return about + "\n## Files\n\n" + "".join(f"- [{each.name}]({each.name})\n" for each in listed)
    if path.suffix == ".md":
        return path.read_text("utf-8")
    code = f"````{CODE[path.suffix]}\n{path.read_text('utf-8')}\n````"
    return f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n{code}\n"


def _file(path: Path) -> Path:
    """Return the base file for relative links on a path's page."""
    return path / "README.md" if path.is_dir() else path


def _linked(markdown: str, file: Path) -> Iterator[Path]:
    """Yield the repository files and folders that a file links to."""
    for target in _LINK.findall(markdown):
        path = (file.parent / target).resolve()
        if path.exists() and ROOT in path.parents:
            yield path.parent if path.name == "README.md" and DOCS not in path.parents else path


def _uri(path: Path) -> str:
    """Return the site path of a file or folder; code, pages and folders have a Markdown page."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    path = _file(path)
    return f"source/{path.relative_to(ROOT).as_posix()}{'.md' if path.suffix in CODE else ''}"


def _relinked(markdown: str, file: Path, uri: str) -> str:
    """Return a file's Markdown with links that work on the site.

    Args:
        markdown: Markdown of the file; MkDocs reports broken links.
        file: The file.
        uri: Site path of the file.
    """

    def moved(link: re.Match[str]) -> str:
        path = (file.parent / link[0]).resolve()
        if not path.exists() or ROOT not in path.parents:
            return link[0]
        return relpath(_uri(path), dirname(uri) or ".")

    return _LINK.sub(moved, markdown)
