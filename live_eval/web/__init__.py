"""Provide the front-end kit of the studio and of self-contained pages: elements, tables, waveforms, theme.

The studio loads the kit as ES modules; `bundle` combines a page's script and its imported modules into one
inline script.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["KIT", "bundle"]

KIT = Path(__file__).parent
"""The folder with the kit's modules and styles."""

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(?:web/)?(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\(.*", re.MULTILINE)


def bundle(script: Path) -> str:
    """Bundle a page's script and its imported kit modules into one script without global names.

    Each module becomes a function that returns its exports, so that names in different modules do not clash.

    Args:
        script: Script of the page, with imports from ``./web/NAME.js``.

    Raises:
        ValueError: An import or export has a form other than ``import { … } from "./NAME.js";`` and
            ``export function``, ``class``, ``const`` or ``let``.
    """
    modules: dict[str, str] = {}
    code = _module(script, modules)
    return "\n".join(['"use strict";\n(() => {', *modules.values(), code, "})();\n"])


def _module(file: Path, modules: dict[str, str]) -> str:
    """Return a module as a function body, and add its imports to `modules` in loading order."""
    text = file.read_text("utf-8")
    for _, name in _IMPORT.findall(text):
        if name not in modules:
            code = _module(KIT / f"{name}.js", modules)
            modules[name] = f"const ${name} = (() => {{\n{code}}})();"
    code = _IMPORT.sub(r"const \1 = $\2;", text)
    exported = _EXPORT.findall(code)
    code = _EXPORT.sub("", code)
    if other := _OTHER.search(code):
        raise ValueError(f"{file.name}: cannot bundle {other[0]!r}")
    return f"{code}return {{ {', '.join(exported)} }};\n" if exported else code
