"""Compiled templates are reused unless they are outdated or damaged."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import pytest
from jinja2 import Environment, FileSystemLoader

from live_eval.report.compiled_templates import CompiledTemplates


class Counting(Environment):
    """An environment that counts compilations."""

    compiled = 0

    def _compile(self, source: str, filename: str) -> CodeType:
        type(self).compiled += 1
        return super()._compile(source, filename)


def rendered(templates: Path) -> tuple[str, int]:
    """Return the page of a new environment, and the number of templates that it compiled."""
    Counting.compiled = 0
    cache = CompiledTemplates(templates)
    environment = Counting(loader=FileSystemLoader(templates), bytecode_cache=cache)
    page = environment.get_template("a.html")
    return page.render(name="you"), Counting.compiled


def test_a_template_is_compiled_once_for_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    source = tmp_path / "a.html"
    source.write_text("to {{ name }}")
    assert [rendered(tmp_path), rendered(tmp_path)] == [("to you", 1), ("to you", 0)]
    source.write_text("for {{ name }}")
    assert rendered(tmp_path) == ("for you", 1)
    for kept in (tmp_path / "__pycache__").iterdir():
        kept.write_bytes(kept.read_bytes()[:-20])
    assert [rendered(tmp_path), rendered(tmp_path)] == [("for you", 1), ("for you", 0)]


def test_nothing_is_written_if_python_writes_no_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.html").write_text("to {{ name }}")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert rendered(tmp_path) == ("to you", 1)
    assert not (tmp_path / "__pycache__").exists()
