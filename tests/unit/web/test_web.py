"""Bundling a page's script with the kit's modules."""

from __future__ import annotations

from pathlib import Path

import pytest

import live_eval.report
from live_eval.web import KIT, bundle

TEMPLATES = Path(live_eval.report.__file__).parent / "templates"


@pytest.mark.parametrize("name", ["report", "duplex"])
def test_a_bundle_contains_each_module_once_after_its_imports(name: str) -> None:
    code = bundle(TEMPLATES / f"{name}.js")
    places = [code.index(f"const ${module} = (") for module in ("elements", "waveform", "sound")]
    assert places == sorted(places)
    assert code.count("const $elements = (") == 1
    assert "\nimport " not in code
    assert "\nexport " not in code


def test_no_module_contains_text_that_ends_a_script_element() -> None:
    for file in KIT.glob("*.js"):
        assert "</" not in file.read_text("utf-8"), file.name
        assert "<!--" not in file.read_text("utf-8"), file.name


@pytest.mark.parametrize(
    "line",
    [
        'import * as all from "./web/elements.js";',
        'import { make } from "/elsewhere.js";',
        'const late = await import("./web/elements.js");',
        "export default 1;",
        "export { one };",
    ],
)
def test_other_forms_of_imports_and_exports_are_refused(line: str, tmp_path: Path) -> None:
    script = tmp_path / "page.js"
    script.write_text(f"{line}\n", "utf-8")
    with pytest.raises(ValueError, match="cannot bundle"):
        bundle(script)
