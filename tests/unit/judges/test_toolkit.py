"""The toolkit suffices to write a judge: the example uses nothing private and meets the contract."""

import ast
import importlib.util
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from live_eval.judging import JudgeSpec, Scored, Unscored
from live_eval.testing import check_judge
from live_eval.testing.judges import ordinary_turn

EXAMPLE = Path(__file__).parents[3] / "examples" / "new-judge"


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """Import the example's module under the name in its entry point."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))
    [entry] = project["project"]["entry-points"]["live_eval.judges"].values()
    name = entry.partition(":")[0]
    found = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    yield module
    del sys.modules[name]


def test_the_example_keeps_the_contract(example: ModuleType) -> None:
    assert isinstance(example.SPEC, JudgeSpec)
    assert example.SPEC.implementation == f"{example.__name__}:FillerWords"
    check_judge(example.SPEC, example.FillerWords(fillers="um,uh"))


def test_the_example_counts_fillers(example: ModuleType) -> None:
    judge = example.FillerWords(fillers="um, uh")
    texts = ("Um, well, uh, yes.", "I'm sorry, but I can't assist with that.", "")
    some, refusal, empty = judge.score([replace(ordinary_turn(), reply_text=text) for text in texts])
    assert some == Scored({"": 50.0}, {"words": 4, "fillers": ["um", "uh"]})
    assert isinstance(refusal, Unscored)
    assert isinstance(empty, Unscored)


def test_the_example_is_short_and_imports_nothing_private() -> None:
    source = (EXAMPLE / "filler_words.py").read_text("utf-8")
    assert len(source.splitlines()) <= 80
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            assert not [part for part in parts if part.startswith("_")]
