"""Show a conversation with one or several endpoints on the terminal screen.

The layout is the same as on the studio's stage: both voices on one axis, the turn's voice-to-voice latency in
large digits and on a fixed scale, the state and the median so far, then scores, transcript and notes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from live_eval.live.drawing import Drawing
from live_eval.live.lines import NO_VOTE, in_words, plain
from live_eval.live.screen_parts import (
    figures,
    latest_lines,
    rows_of,
    scores_of,
    standings_table,
    take_lines,
    waterfall,
)
from live_eval.live.standings import Standing
from live_eval.live.updates import (
    AudioSide,
    DeviceChanged,
    EchoDetected,
    FromEndpoint,
    HeardChanged,
    LatencyMeasured,
    Levels,
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
from live_eval.live.voice_bands import BANDS
from live_eval.live.voice_strip import VoiceStrip

__all__ = ["LiveScreen"]

_LINES = 14
_FRAME_ROWS = 3  # with the cursor's row
_FRAME_COLUMNS = 4
_FEWEST_ROWS = 4  # for the transcript; other parts are omitted first
_TOLD = (State.LAUNCHING, State.CHECKING, State.DISCONNECTED, State.SCORING)
_TAKES = (State.RECORDING, State.CHECKING, State.CHECKED)


class LiveScreen:
    """A `Screen` on the terminal; use it as a context manager.

    Args:
        standings: The endpoints' values, in the order of presentation. Those of several endpoints are updated
            by their conversation; a single one is updated by the screen.
        keys: Key help for the bottom line.
        console: Output console; the terminal by default.
        missing: Reasons why some of the named judges cannot run, by name.
    """

    def __init__(
        self,
        standings: Sequence[Standing],
        keys: str,
        console: Console | None = None,
        *,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        self._standings = standings
        self._alone = len(standings) == 1
        self._keys = keys
        self._drawing = Drawing(self.render, console)
        self._voices = VoiceStrip()
        self._said: deque[Text] = deque(maxlen=_LINES)
        self._pieces = [dict.fromkeys(AudioSide, "") for _ in standings]
        self._speaks = False
        self._turn: LatencyMeasured | None = None  # of a single endpoint
        self._scores: dict[int, QuickScores] = {}  # of the latest scored turn, by place
        self._states: dict[int, str] = {}  # remarks on the current states, by place
        self._notes: dict[type | AudioSide | str, str] = {
            judge: f"{judge} cannot score, missing: {why}" for judge, why in (missing or {}).items()
        }
        self._heard: int | None = 0
        self._wins = (0,) * len(standings)
        self._voted: dict[int, int | None] = {}
        self._asked: TakeAsked | None = None
        self._checked: TakeChecked | None = None

    def __enter__(self) -> Self:
        self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._drawing.stop()

    def show(self, update: Update) -> None:
        """Handle an update."""
        if self._alone:
            self._standings[0].follow(update)
        match update:
            case FromEndpoint():
                self._show_endpoint(update.place, update.update)
            case Levels():
                self._voices.add(update, waits=self._state == "thinking")
            case DeviceChanged(side):
                self._notes[side] = in_words(update)
            case HeardChanged():
                self._heard = update.place
            case Voted():
                self._wins = update.wins
                self._notes[Voted] = NO_VOTE if update.number is None else ""
                if update.number is not None:
                    self._voted[update.number] = update.winner
            case _ if self._alone:
                self._show_endpoint(0, update)
        self._drawing.changed()

    @property
    def _state(self) -> str:
        """The state of the audible endpoint, or of the first one if all are audible in turn."""
        return self._standings[self._heard or 0].in_words

    def _show_endpoint(self, place: int, update: Update) -> None:
        match update:
            case SpeechDetected():
                self._notes.pop(TakeUnheard, None)
                self._speaks = update.speaking
                if self._alone and update.barge_in:
                    self._said.append(Text(in_words(update), style="yellow"))
            case TranscriptPiece(side, text, final):
                pieces = self._pieces[place]
                pieces[side] = text if final else pieces[side] + text
                if final:
                    self._end_line(place, side)
            case LatencyMeasured():
                self._turn = update
                for side in AudioSide:
                    self._end_line(place, side)
            case StateChanged():
                self._tell_state(place, update)
            case QuickScores():
                self._scores[place] = update.merged(self._scores.get(place))
            case TakeAsked():
                self._notes.pop(TakeUnheard, None)
                self._asked, self._checked = update, None
            case TakeChecked():
                self._checked = update
            case Xruns() | EchoDetected() | TakeRepeated() | TakeUnheard():
                self._notes[type(update)] = in_words(update)

    def _tell_state(self, place: int, update: StateChanged) -> None:
        """Remark on a state for as long as it lasts, and on the failure that ended a conversation."""
        if update.state in (State.SCORING, State.ENDED):
            self._notes.pop(TakeRepeated, None)
        standing = self._standings[place]
        if update.failure is not None or update.state in _TOLD:
            label = "" if self._alone or update.failure is None else f"{standing.label}: "
            self._states[place] = f"{label}{in_words(update)}"
        elif not (update.state is State.ENDED and standing.failure is not None):
            self._states.pop(place, None)

    def _end_line(self, place: int, side: AudioSide) -> None:
        text, self._pieces[place][side] = self._pieces[place][side].strip(), ""
        if text:
            self._said.append(self._line(place, side, text))

    def _line(self, place: int, side: AudioSide, text: str) -> Text:
        label = self._standings[place].label
        who = "you" if side is AudioSide.USER else "reply"
        if not self._alone:
            who = f"{label} heard you say" if side is AudioSide.USER else label
        style = "bold" if side is AudioSide.USER else "cyan"
        return Text(f"{plain(who)}: ", style="dim") + Text(plain(text), style=style)

    def render(self) -> RenderableType:
        """Return the current contents of the screen."""
        width, height = self._drawing.console.size
        number = max((number for each in self._standings for number in each.turns), default=0)
        table = standings_table(
            self._standings,
            number,
            width,
            heard=self._heard,
            wins=() if self._alone else self._wins,
            winner=self._voted.get(number, -1),
        )
        columns = width - _FRAME_COLUMNS
        voices = self._voices.rows(columns, speaks=self._speaks)
        labels = ["" if self._alone else each.label for each in self._standings]
        labelled = ((labels[place], each) for place, each in sorted(self._scores.items()))
        scores: list[Text | Table] = [*scores_of(labelled)]
        remarks = dict.fromkeys(filter(None, (*self._states.values(), *self._notes.values())))
        notes = [Text(plain(note), style="yellow") for note in remarks]
        takes = self._alone and self._standings[0].state in _TAKES
        take = take_lines(self._asked, self._checked) if takes and self._asked is not None else []
        steps: list[Text | Table] = []
        if self._alone and self._turn is not None:
            steps.append(waterfall(self._turn))
        large: list[Text | Table] = [figures(self._standings, number), Text()] if number else []
        fixed: list[Text | Table] = [voices, Text(), table, *take, *notes]

        def room() -> int:
            parts = (*fixed, *large, *steps, *scores)
            return height - _FRAME_ROWS - sum(rows_of(part, width) for part in parts)

        for optional in (large, steps, scores):
            if room() < _FEWEST_ROWS:
                optional.clear()
        left = room()
        above: list[RenderableType] = [voices]
        if left >= _FEWEST_ROWS + 2 * BANDS:
            upper, lower = self._voices.spectrograms(columns)
            above = [upper, voices, lower]
            left -= 2 * BANDS
        said = [
            *self._said,
            *(
                self._line(place, side, f"{text} …")
                for place, pieces in enumerate(self._pieces if self._alone else [])
                for side, text in pieces.items()
                if text.strip()
            ),
        ]
        parts = [*above, Text(), *large, table, *take, *latest_lines(said, left, width)]
        return Panel(
            Group(*parts, *steps, *scores, *notes),
            title=plain(self._title),
            subtitle=self._keys,
            title_align="left",
        )

    @property
    def _title(self) -> str:
        if self._alone:
            return f"{self._standings[0].label} · {self._state}"
        return "all in turn" if self._heard is None else f"you hear {self._standings[self._heard].label}"
