"""Compare the settings of runs: endpoint, prompt, impairment, concurrency, judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from live_eval.analysis.comparison.series import ComparedRun
from live_eval.analysis.run_conditions import conditions_of
from live_eval.recording import part_of
from live_eval.types import History

__all__ = [
    "NOT_RECORDED",
    "Setting",
    "prompt_names",
    "prompts_alone_differ",
    "settings_json",
    "settings_that_differ",
    "states_cue",
]

NOT_RECORDED = "not recorded"
"""The name displayed for a prompt that was not recorded."""

_CONCURRENCY = "concurrency"
# Endpoint facts that are not settings, and the prompt, which is compared separately.
_NO_SETTING = frozenset({"title", "comparable", "verified", "instructions"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A difference between two runs: of the endpoint, the prompt, the impairment, concurrency or a judge."""

    name: str
    first: str
    other: str


def settings_that_differ(first: ComparedRun, other: ComparedRun) -> Iterator[Setting]:
    """Yield the settings of two runs that differ, with their judges' versions and models."""
    yield from _run_settings_that_differ(first.manifest, other.manifest)
    if first.unread_scores or other.unread_scores:
        return
    judges = [{judge.name: judge.in_words for judge in run.judges} for run in (first, other)]
    if not all(judges):  # one of the runs has not been scored
        judges = [{"judges": ", ".join(each)} for each in judges]
    for name in dict.fromkeys((*judges[0], *judges[1])):
        values = [each.get(name, "") for each in judges]
        if values[0] != values[1]:
            yield Setting(name if name == "judges" else f"judge.{name}", *values)


def _run_settings_that_differ(first: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Setting]:
    settings_of = [dict(_settings(manifest)) for manifest in (first, other)]
    for name in dict.fromkeys((*settings_of[0], *settings_of[1])):
        values = [settings.get(name, "") for settings in settings_of]
        if values[0] != values[1]:
            yield Setting(name, *values)
    conditions = [conditions_of(manifest) for manifest in (first, other)]
    impairments = [each.impairment or "none" for each in conditions]
    if impairments[0] != impairments[1]:
        yield Setting("impairment", *impairments)
    histories = [each.history or History.OWN for each in conditions]
    if histories[0] != histories[1]:
        yield Setting("history", *histories)
    concurrency = [each.concurrency for each in conditions]
    if concurrency[0] != concurrency[1] and None not in concurrency:
        yield Setting(_CONCURRENCY, *map(str, concurrency))
    if _prompt_hash(first) != _prompt_hash(other):
        yield Setting("prompt", *prompt_names((first, other)))


def settings_json(settings: Iterable[Setting]) -> dict[str, dict[str, str]]:
    """Return both values of each setting by name."""
    return {setting.name: {"first": setting.first, "other": setting.other} for setting in settings}


def _settings(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings of a run's endpoint, except the prompt."""
    asked = part_of(part_of(manifest, "config"), "endpoint")
    for part in (part_of(manifest, "endpoint"), asked):
        for name, value in part.items():
            if name not in _NO_SETTING and value not in (None, "", {}, []):
                yield f"endpoint.{name}", str(value)


def prompts_alone_differ(manifests: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the prompt is the only setting that differs between runs, except the concurrency.

    An address given by the user is a setting because any model may be served there. The address of a built-in
    endpoint is not, because each run starts its own endpoint.
    """
    for one, other in combinations(manifests, 2):
        if not {setting.name for setting in _run_settings_that_differ(one, other)} <= {
            "prompt",
            _CONCURRENCY,
        }:
            return False
    return len({_prompt_hash(manifest) for manifest in manifests}) > 1


def states_cue(manifest: Mapping[str, Any]) -> bool:
    """Return whether a run's prompt describes how each recording was spoken."""
    return "{cue}" in str(part_of(manifest, "prompt").get("text"))


def prompt_names(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the name of each run's prompt; prompts that share a name get part of their hash appended."""
    names = [str(part_of(manifest, "prompt").get("name") or NOT_RECORDED) for manifest in manifests]
    hashes: dict[str, set[str]] = {}
    for name, manifest in zip(names, manifests, strict=True):
        hashes.setdefault(name, set()).add(_prompt_hash(manifest))
    return [
        f"{name} ({_prompt_hash(manifest)[:12]})" if len(hashes[name]) > 1 else name
        for name, manifest in zip(names, manifests, strict=True)
    ]


def _prompt_hash(manifest: Mapping[str, Any]) -> str:
    """Return the hash of a run's prompt; empty if not recorded."""
    return str(part_of(manifest, "prompt").get("sha256") or "")
