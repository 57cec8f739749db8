"""Write docs/reference/licences.md: the licences of installed packages, of weights and of data.

Licences are read from the metadata of the installed packages, so install every extra first,
with Python 3.12 or newer (an extra needs it).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from live_eval.registry import installed_judges

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
NOT_SHIPPED = ("dev", "bench", "docs", "fuzz")
# The metadata lacks the licence or contradicts the installed file, which was read instead.
READ = {
    "agent-client-protocol": "Apache-2.0",
    "kaldiio": "NTT software evaluation licence",
    "pyworld-prebuilt": "MIT",
    "umap-learn": "BSD-3-Clause",
}
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License; MIT License": "MIT License; Apache Software License",
    "BSD": "BSD License",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
RESTRICTED = re.compile(r"\bNC\b|not for commercial|evaluation licence")
HEAD = """# Licences

`live-eval` is licensed under Apache-2.0. `make licences` generates this page from the metadata of the
installed packages. Native libraries inside wheels (FFmpeg in `av`, libsndfile in `soundfile`) have their own
terms. `make sbom` lists the packages and their versions in a CycloneDX document.

**Not for commercial use** marks licences that restrict use to research or evaluation.

## Packages
"""
KALDIIO = """
The licence of `kaldiio` permits evaluation only. `funasr` requires it, but `emoalign`, the only
judge that uses `funasr`, neither needs nor loads it: run `pip uninstall kaldiio` after installing the extra
`emotion`, or exclude it with uv (`override-dependencies = ["kaldiio; sys_platform == 'never'"]` in
`[tool.uv]`).
"""
DATA = """
## Data sets

The package contains only the bundled sample.

| data | licence | |
|---|---|---|
| the bundled sample | Apache-2.0 | |
| EchoMind, EchoMind-Human | CC BY-NC-SA 4.0 | **not for commercial use** |
| VoiceBench; its evaluators' phrases are in `judges/text/voicebench.json` | Apache-2.0 | |
| Big Bench Audio | MIT | |
"""


def normal(name: str) -> str:
    """Return a distribution's normalised name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(name: str) -> str:
    """Return the licence of an installed package on one line."""
    if name in READ:
        return READ[name]
    about = metadata.metadata(name)
    classifiers = [line for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    said = (
        about["License-Expression"]
        or "; ".join(line.rpartition("::")[2].strip() for line in classifiers)
        or (about["License"] or "").partition("\n")[0]
    )
    return SPELLINGS.get(said.strip(), said.strip()) or "not stated"


def shipped(pyproject: Path = ROOT / "pyproject.toml") -> dict[str, list[Requirement]]:
    """Return the users' requirements by extra; base requirements have the empty name."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: [each for each in map(Requirement, lines) if each.name != project["name"]]
        for extra, lines in groups.items()
        if extra not in NOT_SHIPPED
    }


def needed(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the installed packages of a requirement, including itself."""
    for extra in ("", *requirement.extras):
        key = (normal(requirement.name), extra)
        if key in seen:
            continue
        seen.add(key)
        try:
            inner = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:
            continue
        yield key[0]
        for each in map(Requirement, inner):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                yield from needed(each, seen)


def packages() -> dict[str, str]:
    """Return the packages installed for users, each with its extra: ``""`` or the first extra."""
    found: dict[str, str] = {}
    for extra, requirements in shipped().items():
        for requirement in requirements:
            for name in needed(requirement, set()):
                found.setdefault(name, extra)
    return found


def rows(lines: Iterable[tuple[str, str, str]]) -> str:
    """Return the rows of a table, with restricted licences marked."""
    return "".join(
        f"| {name} | {terms} | {note}{' **not for commercial use**' if RESTRICTED.search(terms) else ''} |\n"
        for name, terms, note in lines
    )


def package_row(terms: str, names: Sequence[str]) -> str:
    """Return the row of a licence, marked if it is restricted."""
    mark = " **not for commercial use**" if RESTRICTED.search(terms) else ""
    return f"| {terms}{mark} | {', '.join(names)} |\n"


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    brought = packages()
    for extra in dict.fromkeys(brought.values()):
        names: dict[str, list[str]] = {}
        for name in sorted(name for name, by in brought.items() if by == extra):
            names.setdefault(licence(name), []).append(name)
        title = f"Extra `{extra}`" if extra else "Base install"
        parts.append(f"\n### {title}\n\n| licence | packages |\n|---|---|\n")
        parts.append("".join(package_row(terms, names[terms]) for terms in sorted(names)))
    parts.append(KALDIIO)
    parts.append("\n## Weights\n\n| judge | licence | weights |\n|---|---|---|\n")
    for spec in sorted(installed_judges(), key=lambda spec: spec.name):
        fetched = {each.name: each for option in spec.options for each in option.weights}
        if fetched:
            parts.append(
                rows((spec.name, each.licence, f"fetched: `{each.name}`") for each in fetched.values())
            )
        elif spec.licence:
            parts.append(rows([(spec.name, spec.licence, "with its package")]))
    return "".join([*parts, DATA])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(packages())} packages")
