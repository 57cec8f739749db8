"""The shared frame and style of pages, which open offline and load nothing from other hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["page_template"]


def page_template(path: Path, **filters: Callable[..., str]) -> Template:
    """Return the template of a page, which extends ``page.html`` and may include its neighbours."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([path.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(path.name)
