"""Build the transcript of a turn, timed as heard.

Times are in seconds from the first sample of the audio or, for a turn without audio, from dialling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from live_eval.analysis.turn_taking.from_turns import conversation_of
from live_eval.analysis.turn_taking.speech import Stretch
from live_eval.errors import StoreError
from live_eval.recording import RunReader, TurnRecord

__all__ = ["seconds_after", "transcript_of", "zero_ns_of"]


def zero_ns_of(turn: TurnRecord) -> int:
    """Return the time origin of a turn."""
    return turn.trace.t0_ns if turn.trace.t0_ns is not None else turn.trace.dial_ns


def seconds_after(zero_ns: int, at_ns: int | None) -> float | None:
    """Return the seconds between two times; None for None."""
    return None if at_ns is None else round((at_ns - zero_ns) / 1e9, 6)


def transcript_of(run: RunReader, turn: TurnRecord) -> tuple[list[dict[str, Any]], str | None]:
    """Return the transcript lines of both sides in chronological order.

    Without a script, as in a live run, the user's text is the endpoint's transcript.

    Returns:
        The lines as JSON values and None or, if the audio is missing, no lines and the problem.
    """
    try:
        conversation = conversation_of(run, [turn])
    except ValueError:  # nothing was spoken
        return [], None
    except StoreError as error:
        return [], str(error)
    heard = turn.heard_text or ""
    said = [
        *(("user", speech.text or heard, speech.sounds, None) for speech in conversation.user),
        *(("reply", speech.text, speech.sounds, speech.response_id or None) for speech in conversation.agent),
    ]
    zero_ns = zero_ns_of(turn)
    lines = [
        {
            "side": side,
            "text": text,
            "transcribed": side == "user" and bool(text) and not turn.case.text,
            "response_id": response_id,
            "sounds": list(_stretches(sounds, zero_ns)),
        }
        for side, text, sounds, response_id in said
        if text or sounds
    ]
    return sorted(lines, key=lambda line: line["sounds"][0][0] if line["sounds"] else float("inf")), None


def _stretches(sounds: tuple[Stretch, ...], zero_ns: int) -> Iterator[tuple[float | None, float | None]]:
    for sound in sounds:
        yield seconds_after(zero_ns, sound.start_ns), seconds_after(zero_ns, sound.end_ns)
