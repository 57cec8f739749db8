"""Render and write pages that work offline and load nothing from other hosts."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from markupsafe import Markup

from live_eval import __version__
from live_eval.errors import UsageError
from live_eval.files import atomic_text
from live_eval.report.cells import DIRECTIONS
from live_eval.report.glossary import term_id
from live_eval.text.wording import printable, sentence
from live_eval.web import KIT, bundle

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["COLOURS", "InlineScript", "in_utc", "inline_script", "page_template", "script_json", "write_page"]

COLOURS = 6
"""The number of colours in the theme for runs and conditions."""

_TEMPLATES = Path(__file__).with_name("templates")
_UNSAFE = re.compile("[<>&\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class InlineScript:
    """The inline script of a page.

    Args:
        sha256: Base64 digest of the script, for the page's content security policy, which allows no other.
    """

    text: Markup
    sha256: str


@cache
def page_template(name: str, **filters: Callable[..., str]) -> Template:
    """Load a page template, once; it extends ``page.html`` and may include the kit's styles."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from live_eval.report.compiled_templates import CompiledTemplates

    environment = Environment(
        loader=FileSystemLoader([_TEMPLATES, KIT]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        bytecode_cache=CompiledTemplates(_TEMPLATES),
    )
    environment.globals.update(version=__version__, colours=COLOURS)
    own = {"arrow": direction, "term_id": term_id, "in_utc": in_utc, "sentence": sentence}
    environment.filters.update(own | filters)
    return environment.get_template(name)


def in_utc(iso: object) -> str:
    """Return a time in ISO 8601 and UTC as text; empty if missing."""
    return str(iso or "").replace("T", " ").replace("+00:00", " UTC")


def direction(higher_is_better: bool | None) -> Markup:
    """Return an arrow for the better direction of a score, with text for screen readers."""
    arrow, words = DIRECTIONS[higher_is_better]
    if not arrow:
        return Markup("")
    return Markup('<span aria-hidden="true"> {}</span><span class="unseen">, {}</span>').format(arrow, words)


def _printable(value: Any) -> Any:
    """Remove control characters from a template value, which may be untrusted."""
    if isinstance(value, Markup):
        return Markup(printable(value))  # already escaped
    return printable(value) if isinstance(value, str) else value


def inline_script(name: str) -> InlineScript:
    """Return the script of a page, including the kit modules that it imports."""
    text = bundle(_TEMPLATES / name)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return InlineScript(Markup(text), digest)  # trusted: files of this package


def script_json(value: Any) -> Markup:
    """Return a value as JSON that cannot end its script element (HTML standard, section 4.12.1.3)."""
    text = orjson.dumps(value).decode()
    return Markup(_UNSAFE.sub(_escaped, text))  # all HTML special characters are escaped


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def write_page(page: Path, pieces: Iterable[str], *, links: bool = False) -> Path:
    """Write the pieces of a page, and return its path.

    Args:
        links: Whether the user chose the path; see `live_eval.files.atomic_write`.

    Raises:
        UsageError: The page cannot be written.
    """
    try:
        with atomic_text(page, links=links) as file:
            file.writelines(pieces)
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}") from None
    return page
