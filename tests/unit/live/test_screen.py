"""What a conversation looks like, as lines and on the screen."""

from io import StringIO

import pytest
from rich.console import Console

from live_eval.errors import FailureKind
from live_eval.live.lines import Lines, in_words
from live_eval.live.screen import LiveScreen
from live_eval.live.updates import (
    EchoHeard,
    Levels,
    QuickScores,
    SoundSide,
    SpeechDetected,
    State,
    StateChanged,
    TranscriptPiece,
    Update,
    Xruns,
)
from live_eval.types import Failure

LOST = Failure(FailureKind.CLOSED, "the endpoint closed the connection")


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (StateChanged(State.TALKING), "ready: speak"),
        (
            StateChanged(State.DISCONNECTED, LOST),
            "disconnected: closed: the endpoint closed the connection",
        ),
        (SpeechDetected(speaking=True, barge_in=True), "you speak over the reply"),
        (SpeechDetected(speaking=False), ""),
        (TranscriptPiece(SoundSide.USER, "Hi", final=True), "you: Hi"),
        (TranscriptPiece(SoundSide.REPLY, "He"), ""),
        (
            QuickScores("turn-0001", {"a.b": 3.14159}, {"c": "no text"}),
            "scores of turn-0001: a.b 3.14; c: no text",
        ),
        (Levels(-20, -90), ""),
        (Xruns(1, 2, 3, 4), "sound was lost: device input 1, output 2; session 3 late, 4 dropped"),
        (
            EchoHeard(120.4, 0.5),
            "echo: the microphone hears the reply 120 ms later. Use headphones, or "
            "half-duplex (key h, --half-duplex)",
        ),
    ],
)
def test_an_update_in_words(update: Update, line: str) -> None:
    assert in_words(update) == line


def test_text_of_an_endpoint_cannot_steer_the_terminal() -> None:
    written: list[str] = []
    Lines(written.append).show(TranscriptPiece(SoundSide.REPLY, "a\x1b[2Jb", final=True))
    assert written == ["reply: a [2Jb"]


def test_the_screen_shows_both_sides_and_what_is_said() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=False)
    screen = LiveScreen("toy · manual", "q quit", console)
    for update in (
        StateChanged(State.TALKING),
        Levels(-12, -90, muted=True),
        TranscriptPiece(SoundSide.REPLY, "[bold]Hel"),
        TranscriptPiece(SoundSide.REPLY, "lo\x1b"),
        TranscriptPiece(SoundSide.USER, "What?", final=True),
        EchoHeard(100, 0.5),
        StateChanged(State.DISCONNECTED, LOST),
    ):
        screen.show(update)
    console.print(screen.render())
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    for text in ("toy · manual · disconnected", "muted", "-12 dB", "[bold]Hello", "you: What?", "echo:"):
        assert text in shown
    assert "\x1b" not in shown
