"""Specified requirements are complete: a judge that reports itself as runnable can run."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

import live_eval.judges.specs
from live_eval.judges.specs import WER_SPOKEN
from live_eval.judging import JudgeSpec
from live_eval.registry import missing_requirements
from live_eval.speech.recognition import MODEL_VARIABLE
from tests.support.sources import parsed

SPECS = [spec for spec in vars(live_eval.judges.specs).values() if isinstance(spec, JudgeSpec)]
FOLDER = Path(live_eval.judges.specs.__file__).parents[1]

OURS = "live_eval.judges."


@cache
def base_install() -> set[str]:
    """Return the importable packages of live-eval's dependencies without extras."""
    wanted = [text for text in metadata.requires("live-eval") or () if "extra ==" not in text]
    names = {re.split(r"[^\w.-]", text)[0].lower().replace("_", "-") for text in wanted}
    return {
        package
        for package, owners in metadata.packages_distributions().items()
        if any(owner.lower().replace("_", "-") in names for owner in owners)
    }


def _file_of(module: str) -> Path:
    return FOLDER.joinpath(*module.removeprefix(OURS).split(".")).with_suffix(".py")


@cache
def imports(module: str) -> frozenset[str]:
    """Return the top-level packages that one of our modules imports, directly or through other modules."""
    return frozenset(_imports(module))


def _imports(module: str) -> Iterator[str]:
    nodes: list[ast.AST] = [parsed(_file_of(module))]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.FunctionDef(name="import_torchaudio"):
                continue  # counted at the call
            case ast.Call(func=ast.Name(id="import_torchaudio")):
                yield "torchaudio"
            case ast.Import():
                yield from (alias.name.partition(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str(name)) if name.startswith(OURS) and ".specs" not in name:
                yield from imports(name)
            case ast.ImportFrom(module=str(name)):
                yield name.partition(".")[0]
        nodes += ast.iter_child_nodes(node)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_package_that_a_judge_imports_is_counted(spec: JudgeSpec) -> None:
    known = {*sys.stdlib_module_names, "live_eval", *base_install(), *spec.packages}
    if "funasr" in spec.packages:
        known |= {"omegaconf", "yaml"}  # funasr's own dependencies
    assert imports(spec.implementation.partition(":")[0]) <= known


def test_a_recogniser_without_its_model_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faster_whisper")
    monkeypatch.setenv(MODEL_VARIABLE, str(tmp_path))
    assert "model.bin" in (missing_requirements(WER_SPOKEN) or "")
