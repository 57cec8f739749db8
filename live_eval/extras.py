"""Commands that install the optional extras of live-eval."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path

__all__ = ["install_command"]


def install_command(extra: str) -> str:
    """Return the shell command that installs an extra for this installation.

    In a checkout, the command installs the checkout with the extra. Otherwise it installs only the extra's
    packages, since live-eval is not on a package index.

    Args:
        extra: The name of the extra in pyproject.toml.
    """
    root = Path(__file__).parents[1]
    if (root / "pyproject.toml").is_file():
        place = "." if root == Path.cwd() else str(root)
        return f"pip install -e {shlex.quote(f'{place}[{extra}]')}"
    found = (line.partition(";") for line in metadata.requires("live-eval") or ())
    wanted = [name.strip() for name, _, marker in found if f'extra == "{extra}"' in marker.replace("'", '"')]
    return shlex.join(["pip", "install", *wanted])
