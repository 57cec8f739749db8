"""Print a live conversation as plain lines, without a terminal or with `--plain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from live_eval.analysis.leaderboard_columns import score_heading
from live_eval.judging import JudgeRole, JudgeSpec, OutputSpec, score_name
from live_eval.live.updates import (
    AudioSide,
    DeviceChanged,
    EchoDetected,
    FromEndpoint,
    HeardChanged,
    LatencyMeasured,
    QuickScores,
    SpeechDetected,
    State,
    StateChanged,
    TakeAsked,
    TakeChecked,
    TakeRepeated,
    TakeUnheard,
    TranscriptPiece,
    Update,
    Voted,
    Xruns,
)
from live_eval.registry import installed_judges
from live_eval.text.wording import significant
from live_eval.types import Failure

__all__ = [
    "NO_VOTE",
    "UNCERTAIN",
    "Lines",
    "ShownScore",
    "duration",
    "in_words",
    "main_scores",
    "plain",
    "score_lines",
    "stopped",
    "take_line",
    "voice_to_voice",
]

NO_VOTE = "no vote: at least two replies are required, including the winner's"
"""The message for a vote that does not count."""
UNCERTAIN = "the end of the speech is uncertain"
"""The reason for a missing error bar."""

_MAIN_BY_ROLE = {JudgeRole.PROSODY: ("pitch_hz", "pitch_range", "rate", "pauses")}
_STATES = {
    State.LAUNCHING: "starting the endpoint on this machine; its models load for some seconds …",
    State.STARTING: "connecting …",
    State.TALKING: "ready: speak",
    State.RECORDING: "recording",
    State.CHECKING: "checking the take; the first check loads the recogniser …",
    State.CHECKED: "checked",
    State.DISCONNECTED: "disconnected",
    State.SCORING: "waiting for scores; press q or Ctrl-C to exit now and run `live-eval score` later",
    State.ENDED: "ended",
}


class Lines:
    """A `Screen` that prints updates as lines.

    Args:
        labels: Names or letters of several endpoints, in the order of presentation.
        streams: What is streamed to a session instead of the user's voice; empty for a person, who may speak.
    """

    def __init__(
        self, write: Callable[[str], None], labels: Sequence[str] = (), *, streams: str = ""
    ) -> None:
        self._write = write
        self._labels = labels
        self._streams = streams
        self._user: SpeechDetected | None = None  # the last one; with several endpoints, each reports it
        self._xruns: Xruns | None = None
        self._has_checked = False

    def show(self, update: Update) -> None:
        """Print an update's line, if any; xruns are printed at most once per turn."""
        if isinstance(update, FromEndpoint):
            self._show(update.update, f"{self._labels[update.place]}: ")
        elif not (self._labels and isinstance(update, StateChanged)):  # follows from the endpoints' states
            self._show(update)

    def _show(self, update: Update, label: str = "") -> None:
        if isinstance(update, Xruns):
            self._xruns = update
            return
        if label and isinstance(update, SpeechDetected):
            if self._user is not None and update.speaking is self._user.speaking:
                return
            self._user, label = update, ""
        lines = [self._in_words(update)]
        if isinstance(update, LatencyMeasured) and self._xruns is not None:
            lines.append(in_words(self._xruns))
            self._xruns = None
        for line in filter(None, lines):
            self._write(plain(f"{label}{line}"))

    def _in_words(self, update: Update) -> str:
        match update:
            case StateChanged(State.CHECKING) if self._has_checked:
                return "checking the take …"
            case StateChanged(State.CHECKING):
                self._has_checked = True
            case StateChanged(State.TALKING, None) if self._streams:
                return f"streaming {self._streams} …"
            case HeardChanged():
                return f"you hear {'all in turn' if update.place is None else self._labels[update.place]}"
            case Voted():
                if update.number is None:
                    return NO_VOTE
                winner = "tie" if update.winner is None else self._labels[update.winner]
                return f"vote on turn {update.number}: {winner}"
        return in_words(update)


def in_words(update: Update) -> str:
    """Format an update as a line; return an empty string if it is not printed (levels, for example)."""
    match update:
        case StateChanged(State.RECORDING | State.CHECKED):
            return ""  # printed later, with the take or its check
        case StateChanged(state, None):
            return _STATES[state]
        case StateChanged(state, failure) if failure is not None:
            return f"{_STATES[state]}: {_failed(failure)}"
        case SpeechDetected(True, over):
            return "you interrupt the reply" if over else "you speak"
        case TranscriptPiece(side, text, True):
            return f"{'you' if side is AudioSide.USER else 'reply'}: {text.strip()}"
        case LatencyMeasured():
            return _latency_line(update)
        case QuickScores():
            scores = score_lines(update)
            return f"scores of turn {update.number}: {'; '.join(scores)}{duration(update)}" if scores else ""
        case TakeAsked():
            again = f", attempt {update.attempt}" if update.attempt > 1 else ""
            number = f"take {update.number} of {update.total}{again}"
            return f"{number}: say this {update.direction}: {update.text}"
        case TakeChecked():
            return take_line(update)
        case TakeUnheard(level):
            return f"no speech so far (peak {level:.0f} dBFS): speak up, or raise the input level"
        case TakeRepeated(number, total):
            omit = "press q or Ctrl-C to omit"
            return f"streaming the takes again ({number} of {total}), to compare styles with repeats; {omit}"
        case EchoDetected():
            return (
                f"echo: the microphone picks up the reply after {update.delay_ms:.0f} ms. Use headphones, or "
                "half-duplex (key h, --half-duplex)"
            )
        case DeviceChanged(AudioSide.USER, problem):
            return f"{problem} The endpoint hears silence" if problem else "the microphone works again"
        case DeviceChanged(_, problem):
            return f"{problem} Replies are not audible" if problem else "the output device works again"
        case Xruns():
            counts = {
                "at the microphone": update.input,
                "at the loudspeaker": update.output,
                "late for the session": update.underruns,
                "dropped by the session": update.overruns,
            }
            lost = ", ".join(f"{count} {where}" for where, count in counts.items() if count)
            return f"audio was lost, counted so far: {lost}"
        case _:
            return ""


def take_line(take: TakeChecked) -> str:
    """Return a line with the result of checking a take."""
    if not take.usable:
        return f"repeat the take: {'; '.join(take.problems)}"
    heard = f", heard: {take.heard or 'nothing'}" if take.heard is not None else ""
    verdict = f"problems: {'; '.join(take.problems)}" if take.problems else "no problems"
    return f"the take has {verdict} ({take.seconds:.1f} s, {take.level_dbfs:.0f} dBFS{heard})"


def plain(text: str) -> str:
    """Remove control characters from an endpoint's text, because the terminal would interpret them."""
    return "".join(character if character.isprintable() else " " for character in text)


def _failed(failure: Failure) -> str:
    """Return the kind and the message of a failure; an endpoint's own message may begin with the kind."""
    kind = f"{failure.kind}: "
    return f"{kind}{failure.message.removeprefix(kind)}"


def _latency_line(turn: LatencyMeasured) -> str:
    """Return a line with a turn's latencies or failure."""
    if turn.record.failure is not None:
        return f"turn {turn.number}: {_failed(turn.record.failure)}"
    parts = ", ".join(f"{name} {ns / 1e6:+.0f}" for name, ns in turn.reply_steps.items())
    line = f"turn {turn.number}: voice to voice {voice_to_voice(turn)}"
    return "; ".join(filter(None, (line, parts and f"ms by step: {parts}", stopped(turn))))


def voice_to_voice(turn: LatencyMeasured) -> str:
    """Return the voice-to-voice latency with its error bar, or why it is missing."""
    timing = turn.record.timing
    total = timing.voice_to_voice
    if total.ns is None:
        return total.reason
    error = UNCERTAIN if timing.uncertain else f"± {timing.lag_ns / 1e6:.0f}"
    return f"{total.ns / 1e6:.0f} ms ({error})"


def stopped(turn: LatencyMeasured) -> str:
    """Return the time from a barge-in until the reply stopped; empty without a barge-in."""
    stop_ns = turn.record.timing.barge_in_stop.ns
    return f"stopped {stop_ns / 1e6:.0f} ms after you spoke" if stop_ns is not None else ""


def score_lines(update: QuickScores) -> list[str]:
    """Return lines with a turn's main scores and the reasons for missing scores."""
    scored = [f"{each.title}: {each.text}" for each in main_scores(update.scores)]
    return scored + [f"{judge}: no score ({why})" for judge, why in update.problems.items()]


def duration(update: QuickScores) -> str:
    """Return a suffix with the judging time and, if the scores are late, a note."""
    taken = f"{update.seconds:.1f} s" if update.seconds else ""
    texts = ", ".join(filter(None, (taken, "late" if update.late else "")))
    return f" ({texts})" if texts else ""


class ShownScore(NamedTuple):
    """A score with its title and its unit."""

    title: str
    value: float | str
    unit: str

    @property
    def text(self) -> str:
        """The value with its unit."""
        value = significant(self.value, 3) if isinstance(self.value, float) else str(self.value)
        return f"{value} {self.unit}".rstrip()


def main_scores(scores: Mapping[str, float | str]) -> list[ShownScore]:
    """Return the main scores, those of default judges first."""
    judges = sorted(
        installed_judges(), key=lambda spec: (spec.default_place is None, spec.default_place or 0)
    )
    named: list[tuple[str, str, str]] = []
    for spec in judges:
        named += [(f"{spec.name}:{key}", title, "") for key, title in spec.classes.items()]
        outputs = _main_outputs(spec)
        named += [(score_name(spec.name, each.name), score_heading(each), each.unit) for each in outputs]
    return [ShownScore(title, scores[name], unit) for name, title, unit in named if name in scores]


def _main_outputs(spec: JudgeSpec) -> list[OutputSpec]:
    """Return the outputs of a role or, without one, the output that the leaderboard and reports show."""
    names = _MAIN_BY_ROLE.get(spec.role, ()) if spec.role is not None else ()
    ranked = [output for output in spec.outputs if output.columns] or spec.outputs
    return [output for output in spec.outputs if output.name in names] or [ranked[0]]
