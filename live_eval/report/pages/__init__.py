"""The shared frame of pages, which open offline and load nothing from other hosts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from markupsafe import Markup

from live_eval.errors import UsageError
from live_eval.files import atomic_text
from live_eval.text.wording import printable
from live_eval.web import KIT, bundle

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["InlineScript", "inline_script", "page_template", "script_json", "write_page"]


@dataclass(frozen=True, slots=True)
class InlineScript:
    """The script of a page.

    Args:
        text: Its code.
        sha256: Its digest in base64, by which the page's policy allows it and no other.
    """

    text: Markup
    sha256: str


def page_template(path: Path, **filters: Callable[..., str]) -> Template:
    """Return the template of a page, which extends ``page.html`` and may include its neighbours."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([path.parent, Path(__file__).parent, KIT]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters.update(filters)
    return environment.get_template(path.name)


def _printable(value: Any) -> Any:
    """Return what a template prints, without control characters that somebody else may have written."""
    if isinstance(value, Markup):
        return Markup(printable(value))  # escaped before
    return printable(value) if isinstance(value, str) else value


def inline_script(script: Path) -> InlineScript:
    """Return a page's script with the kit's modules that it imports."""
    text = bundle(script)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return InlineScript(Markup(text), digest)  # files of this package


def script_json(value: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in (HTML standard, section 4.12.1.3)."""
    text = orjson.dumps(value).decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # every character that is special in HTML is escaped


def write_page(folder: Path, name: str, pieces: Iterable[str]) -> Path:
    """Write a page into a folder, which may come from someone else.

    Args:
        folder: The folder.
        name: The page's file name.
        pieces: The page.

    Returns:
        Its path.

    Raises:
        UsageError: It cannot be written.
    """
    page = folder / name
    try:
        with atomic_text(page) as file:
            file.writelines(pieces)
    except OSError as error:
        raise UsageError(f"{page}: cannot be written: {error.strerror}") from None
    return page
