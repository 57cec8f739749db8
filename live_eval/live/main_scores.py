"""The few scores that a conversation shows of each turn; `live-eval show` shows all."""

from __future__ import annotations

from collections.abc import Mapping

from live_eval.judging import JudgeRole, JudgeSpec, OutputSpec, score_name
from live_eval.registry import installed_judges
from live_eval.text.wording import significant

__all__ = ["main_scores"]

_BY_ROLE = {JudgeRole.PROSODY: ("pitch_hz", "pitch_range", "rate", "pauses")}
_DIGITS = 3


def main_scores(scores: Mapping[str, float | str]) -> list[tuple[str, str]]:
    """Return the main scores of a turn, each as its title and its value with the unit.

    Of most judges that is the first output. The judges that run by default come first.

    Args:
        scores: By name, as `judge.output`.
    """
    judges = sorted(
        installed_judges(), key=lambda spec: (spec.default_place is None, spec.default_place or 0)
    )
    named = (
        (score_name(spec.name, output.name), output) for spec in judges for output in _main_outputs(spec)
    )
    return [(output.title, _in_words(scores[name], output.unit)) for name, output in named if name in scores]


def _main_outputs(spec: JudgeSpec) -> list[OutputSpec]:
    names = _BY_ROLE.get(spec.role, ()) if spec.role is not None else ()
    return [output for output in spec.outputs if output.name in names] or [spec.outputs[0]]


def _in_words(value: float | str, unit: str) -> str:
    figure = significant(value, _DIGITS) if isinstance(value, float) else str(value)
    return f"{figure} {unit}".rstrip()
