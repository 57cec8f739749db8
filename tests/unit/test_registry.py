import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from live_eval import registry
from live_eval.clients.specs import NOVA_SONIC
from live_eval.errors import PluginError
from live_eval.judging import JudgeKind, JudgeSpec, OptionSpec, OutputSpec
from live_eval.registry import ClientSpec

GOOD = ClientSpec(
    name="good", title="Good", dialect="a:B", transport="c:D", base_url=None, key_variable="GOOD_KEY"
)
MISNAMED = ClientSpec(name="other", title="Other", dialect="a:B", transport="c:D", base_url=None)
NOT_A_SPEC = 3
JUDGE = JudgeSpec(
    name="wanting",
    version="1",
    title="Wants what is not there",
    kind=JudgeKind.LOCAL,
    implementation="a:B",
    outputs=(OutputSpec(name="", title="it"),),
    needs=frozenset(),
    packages=("no_such_package_anywhere",),
    extra="torch",
    key_variable="WANTING_KEY",
)


def entries(*values: str) -> metadata.EntryPoints:
    return metadata.EntryPoints(
        metadata.EntryPoint(name=name, value=value, group=registry.CLIENTS)
        for name, _, value in (text.partition("=") for text in values)
    )


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    brought = types.ModuleType("brought_by_others")
    brought.__dict__.update(GOOD=GOOD, MISNAMED=MISNAMED, NOT_A_SPEC=NOT_A_SPEC)
    monkeypatch.setitem(sys.modules, "brought_by_others", brought)
    found = entries(
        "good=brought_by_others:GOOD",
        "misnamed=brought_by_others:MISNAMED",
        "number=brought_by_others:NOT_A_SPEC",
        "absent=no_such_module:X",
    )
    monkeypatch.setattr(metadata, "entry_points", lambda group: found)
    registry.find_plugins.cache_clear()
    yield
    registry.find_plugins.cache_clear()


@pytest.mark.usefixtures("plugins")
def test_plugins_are_found_and_broken_ones_have_a_reason() -> None:
    found = {plugin.name: plugin for plugin in registry.find_plugins(registry.CLIENTS)}
    assert found["good"].spec is GOOD
    problems = {name: plugin.problem or "" for name, plugin in found.items()}
    assert "in its specification, got 'other'" in problems["misnamed"]
    assert "to be a ClientSpec, got int" in problems["number"]
    assert "No module named 'no_such_module'" in problems["absent"]
    assert found["absent"].spec is None


@pytest.mark.usefixtures("plugins")
def test_an_unknown_name_lists_the_known_ones() -> None:
    assert registry.client("good") is GOOD
    with pytest.raises(PluginError, match="unknown endpoint 'bad'; expected one of absent, good"):
        registry.client("bad")
    with pytest.raises(PluginError, match=r"endpoint 'absent' .* is broken"):
        registry.client("absent")


def test_missing_requirements_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOD_KEY", raising=False)
    monkeypatch.delenv("WANTING_KEY", raising=False)
    assert registry.missing_requirements(GOOD) == "API key (set GOOD_KEY)"
    lacking = registry.missing_requirements(JUDGE) or ""
    assert "no_such_package_anywhere" in lacking
    assert "[torch]" in lacking
    assert "WANTING_KEY" in lacking
    monkeypatch.setenv("GOOD_KEY", "x")
    assert registry.missing_requirements(GOOD) is None


@pytest.mark.usefixtures("plugins")
def test_the_machine_check_of_a_judge_is_included(monkeypatch: pytest.MonkeyPatch) -> None:
    option = OptionSpec(name="corpus", help="which", default="small")
    checked = replace(
        JUDGE, packages=(), key_variable=None, options=(option,), machine_check="brought_by_others:check"
    )
    sys.modules["brought_by_others"].__dict__["check"] = lambda corpus: (
        None if corpus == "small" else f"no {corpus}"
    )
    assert registry.missing_requirements(checked) is None
    assert registry.missing_requirements(checked, {"corpus": "large"}) == "no large"
    # Its code may need the packages, so it is not called without them.
    assert "no large" not in (
        registry.missing_requirements(replace(checked, packages=JUDGE.packages), {"corpus": "large"}) or ""
    )
    assert "cannot load" in (
        registry.missing_requirements(replace(checked, machine_check="brought_by_others:gone")) or ""
    )


def test_loading_names_the_missing_part() -> None:
    assert registry.load("pathlib:Path") is Path
    with pytest.raises(PluginError, match="no_such_module"):
        registry.load("no_such_module:X")
    with pytest.raises(PluginError, match="Nothing"):
        registry.load("pathlib:Nothing")


def test_all_bundled_plugins_are_found() -> None:
    for group in (registry.CLIENTS, registry.JUDGES):
        for plugin in registry.find_plugins(group):
            assert plugin.problem is None, plugin
    assert {plugin.name for plugin in registry.find_plugins(registry.CLIENTS)} >= {
        "openai",
        "openai-beta",
        "reference",
    }


def test_another_distribution_with_our_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"live_eval": ["live-eval", "someone-elses"], "other": ["someone-elses"]}
    monkeypatch.setattr(metadata, "packages_distributions", lambda: owners)
    (clash,) = registry.package_clashes()
    assert "'live_eval' is also installed by someone-elses" in clash


def test_packages_that_need_a_newer_python() -> None:
    needs = replace(NOVA_SONIC, packages=("no_such_package",), key_variable=None, python=(3, 99))
    here = ".".join(map(str, sys.version_info[:2]))
    told = registry.missing_requirements(needs) or ""
    assert told.startswith(
        f"package no_such_package (needs Python 3.99 or newer, this is {here}; there: pip install "
    )
    assert "Python" not in (registry.missing_requirements(replace(needs, python=(3, 11))) or "")
