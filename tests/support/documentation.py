"""The pages of the documentation and their code blocks, for tests that run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["DOCS", "PAGES", "ROOT", "Block", "blocks", "calls", "run_python", "shell_lines", "without_blocks"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A code block.

    Args:
        language: Language of the block, or empty.
        text: The code.
        line: Line number in the page of its first line, from 1.
    """

    language: str
    text: str
    line: int


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the code blocks of a page in these languages; all blocks if none is given."""
    text = page.read_text("utf-8")
    found = [
        Block(each[1], each[2], text.count("\n", 0, each.start(2)) + 1) for each in _BLOCK.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def without_blocks(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return _BLOCK.sub("", page.read_text("utf-8"))


def shell_lines(page: Path) -> Iterator[str]:
    """Yield the lines of a page's shell blocks, with continued lines joined."""
    for block in blocks(page, "", "sh", "bash", "console"):
        yield from block.text.replace("\\\n", " ").splitlines()


def calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of live-eval in a line of shell."""
    words = shlex.split(line, comments=True)
    starts = [place for place, word in enumerate(words) if word == "live-eval"]
    for start in starts:
        rest = words[start + 1 :]
        ends = (place for place, word in enumerate(rest) if word in ("&", "&&", "|", "||", ">", ";"))
        end = next(ends, None)
        yield rest[:end]


def run_python(page: Path, **names: Any) -> dict[str, Any]:
    """Run the Python blocks of a page, one after the other in one namespace.

    Args:
        page: The page; errors name it and its line.
        names: Names that the blocks may use without defining them.

    Returns:
        The names defined after the last block.
    """
    namespace: dict[str, Any] = {"__name__": page.stem, **names}
    for block in blocks(page, "python"):
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
    return namespace
