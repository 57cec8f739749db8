"""tau2-bench's recorded calls, converted from ticks to conversations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation, Stretch, UserSpeech
from live_eval.analysis.turn_taking.tau2 import TICK_NS
from live_eval.types import SpeechKind

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "tau2-fixture"

_EFFECTS = {"vocal_tic": SpeechKind.VOCAL_TIC, "non_directed_phrase": SpeechKind.NON_DIRECTED}


def calls() -> list[Conversation]:
    """Return the recorded calls."""
    return [_read(path) for path in sorted((FOLDER / "simulations").glob("*.json"))]


def expected() -> dict[str, Any]:
    """Return the values that tau2's tests expect over all calls."""
    values: dict[str, Any] = json.loads((FOLDER / "expected_metrics.json").read_text("utf-8"))
    return values


def _read(path: Path) -> Conversation:
    ticks = json.loads(path.read_text("utf-8"))["ticks"]
    user = [
        UserSpeech(kind=kind, sounds=(stretch,))
        for stretch in _stretches(ticks, lambda tick: _speaks(tick, "user_chunk"))
        for kind in [_kind(ticks[stretch.start_ns // TICK_NS]["user_chunk"])]
    ]
    for name, kind in _EFFECTS.items():
        texts = {insert["text"] for tick in ticks for insert in _inserts(tick) if insert["type"] == name}
        user += [
            UserSpeech(kind=kind, sounds=(stretch,), text=text)
            for text in texts
            for stretch in _stretches(ticks, partial(_holds, text=text))
        ]
    return Conversation(
        start_ns=0,
        end_ns=len(ticks) * TICK_NS,
        user=tuple(sorted(user, key=lambda each: each.start_ns)),
        agent=tuple(
            # The ticks do not contain the reason why a segment ended.
            AgentSpeech(response_id=str(number), sounds=(stretch,), completed=False)
            for number, stretch in enumerate(_stretches(ticks, lambda tick: _speaks(tick, "agent_chunk")))
        ),
    )


def _speaks(tick: dict[str, Any], side: str) -> bool:
    return tick[side] is not None and tick[side]["contains_speech"]


def _kind(chunk: dict[str, Any]) -> SpeechKind:
    action = (chunk["turn_taking_action"] or {}).get("action")
    return SpeechKind.BACKCHANNEL if action == "backchannel" else SpeechKind.TURN


def _inserts(tick: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for effects in ("source_effects", "speech_effects"):
        insert = ((tick["user_chunk"] or {}).get(effects) or {}).get("speech_insert")
        if insert:
            yield insert


def _holds(tick: dict[str, Any], text: str) -> bool:
    return any(insert["text"] == text for insert in _inserts(tick))


def _stretches(ticks: list[dict[str, Any]], holds: Callable[[dict[str, Any]], bool]) -> Iterator[Stretch]:
    """Yield the runs of ticks for which a condition holds."""
    start = None
    for number, tick in enumerate([*ticks, None]):
        now = tick is not None and holds(tick)
        if now and start is None:
            start = number
        elif not now and start is not None:
            yield Stretch(start * TICK_NS, number * TICK_NS)
            start = None
