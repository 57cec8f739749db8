"""A live conversation as plain lines, where there is no terminal or `--plain` is given."""

from __future__ import annotations

from collections.abc import Callable

from live_eval.live.main_scores import main_scores
from live_eval.live.updates import (
    EchoHeard,
    QuickScores,
    SoundSide,
    SpeechDetected,
    State,
    StateChanged,
    TranscriptPiece,
    TurnFinished,
    Update,
    Xruns,
)

__all__ = ["Lines", "in_words", "plain", "score_lines", "stopped", "turn_line", "voice_to_voice"]


class Lines:
    """Prints a line for each thing that happens; a `Screen`.

    Args:
        write: Prints a line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._xruns: Xruns | None = None

    def show(self, update: Update) -> None:
        """Print an update, if it deserves a line; of lost sound, one line for each turn."""
        if isinstance(update, Xruns):
            self._xruns = update
            return
        lines = [in_words(update)]
        if isinstance(update, QuickScores) and lines[0]:
            lines = [f"scores of {update.turn_id}", *(f"  {line}" for line in score_lines(update))]
        if isinstance(update, TurnFinished) and self._xruns is not None:
            lines.append(in_words(self._xruns))
            self._xruns = None
        for line in filter(None, lines):
            self._write(plain(line))


def in_words(update: Update) -> str:
    """Return an update as a line; empty for those that deserve none, such as levels."""
    match update:
        case StateChanged(state, None):
            return _STATES[state]
        case StateChanged(state, failure) if failure is not None:
            return f"{_STATES[state]}: {failure.kind}: {failure.message}"
        case SpeechDetected(True, over):
            return "you speak over the reply" if over else "you speak"
        case TranscriptPiece(side, text, True):
            return f"{'you' if side is SoundSide.USER else 'reply'}: {text.strip()}"
        case TurnFinished():
            return turn_line(update)
        case QuickScores():
            scores = score_lines(update)
            return f"scores of {update.turn_id}: {'; '.join(scores)}" if scores else ""
        case EchoHeard():
            return (
                f"echo: the microphone hears the reply {update.delay_ms:.0f} ms later. Use headphones, or "
                "half-duplex (key h, --half-duplex)"
            )
        case Xruns():
            return (
                f"sound was lost: device input {update.input}, output {update.output}; "
                f"session {update.underruns} late, {update.overruns} dropped"
            )
        case _:
            return ""


def plain(text: str) -> str:
    """Return text of an endpoint without control characters, which could steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def turn_line(turn: TurnFinished) -> str:
    """Return the figures of a turn in a line."""
    if turn.record.failure is not None:
        return f"turn {turn.number}: {turn.record.failure.kind}: {turn.record.failure.message}"
    parts = ", ".join(f"{name} {ns / 1e6:+.0f}" for name, ns in turn.reply_steps.items())
    said = f"turn {turn.number}: voice to voice {voice_to_voice(turn)}; ms by step: {parts}"
    return "; ".join(filter(None, (said, stopped(turn))))


def voice_to_voice(turn: TurnFinished) -> str:
    """Return the voice-to-voice latency with its error bar, or why there is none."""
    timing = turn.record.timing
    total = timing.voice_to_voice
    return f"{total.ns / 1e6:.0f} ms (± {timing.lag_ns / 1e6:.0f})" if total.ns is not None else total.reason


def stopped(turn: TurnFinished) -> str:
    """Return how soon the reply stopped after the user spoke over it; empty where nobody did."""
    stop_ns = turn.record.timing.barge_in_stop.ns
    return f"stopped {stop_ns / 1e6:.0f} ms after you spoke" if stop_ns is not None else ""


def score_lines(update: QuickScores) -> list[str]:
    """Return a turn's main scores, and the judges that failed."""
    scores = [f"{title}: {value}" for title, value in main_scores(update.scores)]
    return scores + [f"{judge} failed: {why}" for judge, why in update.problems.items()]


_STATES = {
    State.STARTING: "connecting …",
    State.TALKING: "ready: speak",
    State.DISCONNECTED: "disconnected",
    State.SCORING: "waiting for scores; q or Ctrl-C leaves them to `live-eval score`",
    State.ENDED: "ended",
}
