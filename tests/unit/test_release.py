"""Release files match the project: the lock, licences, citation, workflow and container."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from live_eval.analysis.turn_taking.outcomes import RULES_VERSION
from live_eval.campaigns.duplex.stimuli import STIMULI_VERSION
from live_eval.speech.boundaries import METHOD_VERSION
from live_eval.timing import TIMING_VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
UNLOCKED = {"torch", "torchaudio"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_documentation_has_the_versions_of_definitions() -> None:
    text = " ".join((ROOT / "CHANGELOG.md").read_text("utf-8").split())
    assert f"timing {TIMING_VERSION} " in text
    assert f"duplex rules {RULES_VERSION}, stimuli {STIMULI_VERSION}, " in text
    assert f"speech boundaries {METHOD_VERSION}, " in text
    page = " ".join((ROOT / "docs/reference/turn-taking.md").read_text("utf-8").split())
    assert f"version {RULES_VERSION} (`rules_version`), the stimuli version {STIMULI_VERSION} " in page


def makefile_extras(variable: str = "DEV") -> list[str]:
    [extras] = re.findall(rf"^{variable} := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return str(extras).split(",")


def requirements(*extras: str) -> list[Requirement]:
    lines = [
        *PROJECT["dependencies"],
        *(each for extra in extras for each in PROJECT["optional-dependencies"][extra]),
    ]
    return [each for each in map(Requirement, lines) if each.name != PROJECT["name"]]


def locked(python: str) -> dict[str, str]:
    """Return the locked versions for a Python version."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    lines = re.findall(
        r"^(\S+==[^\\\n]+?) *\\?$", (ROOT / "requirements-dev.lock").read_text("utf-8"), re.MULTILINE
    )
    found = map(Requirement, lines)
    return {
        normal(each.name): str(each.specifier).removeprefix("==")
        for each in found
        if each.marker is None or each.marker.evaluate(environment)
    }


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_has_what_development_needs(python: str) -> None:
    versions = locked(python)
    wanted = requirements(*makefile_extras())
    held = [
        Requirement(line)
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if line[0] != "#"
    ]
    for each in [*wanted, *(one for one in held if normal(one.name) in versions)]:
        if each.name in UNLOCKED or (each.marker and not each.marker.evaluate()):
            continue
        version = versions.get(normal(each.name))
        assert version is not None, f"{each.name} is missing; run `make lock`"
        assert each.specifier.contains(version), f"{each}: {version}; run `make lock`"


def test_every_locked_package_has_hashes() -> None:
    entries = (ROOT / "requirements-dev.lock").read_text("utf-8").replace("\\\n", " ").splitlines()
    assert [line for line in entries if "==" in line and "--hash=sha256:" not in line] == []


def test_licences_and_sbom_are_of_every_extra_for_users() -> None:
    ours = {"dev", "bench", "docs", "fuzz"}
    assert set(makefile_extras("SHIPPED")) == set(PROJECT["optional-dependencies"]) - ours


def test_the_licence_of_every_package_is_listed() -> None:
    page = (ROOT / "docs/reference/licences.md").read_text("utf-8")
    packages = re.findall(r"^\| (.+) \| ([\w., -]+) \|$", page.partition("## Weights")[0], re.MULTILINE)
    listed = {name: terms for terms, names in packages for name in names.split(", ")}
    extras = [
        each for each in PROJECT["optional-dependencies"] if each not in ("dev", "bench", "docs", "fuzz")
    ]
    missing = {normal(each.name) for each in requirements(*extras)} - set(listed)
    assert not missing, "run `make licences` with every extra installed"
    assert "not stated" not in listed.values()


@pytest.mark.parametrize("name", ["kaldiio", "nisqa", "EchoMind, EchoMind-Human"])
def test_noncommercial_items_are_marked(name: str) -> None:
    lines = (ROOT / "docs/reference/licences.md").read_text("utf-8").splitlines()
    [line] = [line for line in lines if f"| {name} |" in line]
    assert "**not for commercial use**" in line


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    for field in ("cff-version", "message", "title", "authors"):
        assert cited[field], "required by the Citation File Format 1.2.0"
    assert (cited["title"], cited["version"], cited["license"]) == (
        PROJECT["name"], PROJECT["version"], PROJECT["license"],
    )  # fmt: skip


def test_the_workflow_runs_our_checks_and_every_python_that_we_name() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    assert [step["run"] for step in jobs["checks"]["steps"] if "run" in step] == [".ci/run"]
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    assert jobs["wheel"]["strategy"]["matrix"]["python-version"] == named


def test_the_container_ends_in_the_demo() -> None:
    *_, last = (ROOT / "Dockerfile").read_text("utf-8").strip().splitlines()
    assert last == 'CMD ["make", "demo"]'
