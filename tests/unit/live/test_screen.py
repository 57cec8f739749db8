"""What a conversation looks like, as lines and on the screen."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from live_eval.analysis.latency.waterfall import waterfall_of
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
    TurnFinished,
    Update,
    Xruns,
)
from live_eval.testing.records import spoken_turn
from live_eval.timing import Latency
from live_eval.types import Case, Failure, Variant

LOST = Failure(FailureKind.CLOSED, "the endpoint closed the connection")


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (StateChanged(State.TALKING), "ready: speak"),
        (
            StateChanged(State.SCORING),
            "waiting for scores; q or Ctrl-C leaves them to `live-eval score`",
        ),
        (
            StateChanged(State.DISCONNECTED, LOST),
            "disconnected: closed: the endpoint closed the connection",
        ),
        (SpeechDetected(speaking=True, barge_in=True), "you speak over the reply"),
        (SpeechDetected(speaking=False), ""),
        (TranscriptPiece(SoundSide.USER, "Hi", final=True), "you: Hi"),
        (TranscriptPiece(SoundSide.REPLY, "He"), ""),
        (
            QuickScores("turn-0001", {"dnsmos.ovrl": 3.14159, "dnsmos.sig": 3.0}, {"c": "no text"}),
            "scores of turn-0001: overall quality (P.835): 3.14 MOS; c failed: no text",
        ),
        (QuickScores("turn-0001", {}), ""),
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


SCORES = QuickScores(
    "turn-0001",
    {
        "dnsmos.ovrl": 3.14159,
        "dnsmos.sig": 3.5,
        "prosody.declination": -4.33,
        "prosody.pitch_hz": 181.27,
        "prosody.pauses": 12.345,
        "wer_spoken.normalized": 0.0,
        "wer_spoken.raw": 20.0,
    },
)
SHOWN = [
    "overall quality (P.835): 3.14 MOS",
    "word error rate of what was said, Whisper-normalised: 0 %",
    "median pitch: 181 Hz",
    "share of pauses: 12.3 %",
]


def test_of_the_scores_only_the_main_ones_are_printed_with_their_units() -> None:
    written: list[str] = []
    Lines(written.append).show(SCORES)
    assert written == ["scores of turn-0001", *(f"  {line}" for line in SHOWN)]


def shown(screen: LiveScreen, *updates: Update) -> str:
    """Return what the screen shows after these updates."""
    for update in updates:
        screen.show(update)
    console = Console(file=StringIO(), width=100, force_terminal=False)
    console.print(screen.render())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.fixture
def screen() -> LiveScreen:
    return LiveScreen("toy · manual", "q quit", Console(file=StringIO(), width=100, force_terminal=False))


def test_the_screen_shows_the_main_scores(screen: LiveScreen) -> None:
    text = shown(screen, SCORES)
    assert all(line in text for line in ("scores of turn-0001", *SHOWN))
    assert "slope of the pitch" not in text


def test_what_was_said_last_keeps_its_place_on_a_low_screen() -> None:
    console = Console(file=StringIO(), width=80, height=20, force_terminal=False)
    screen = LiveScreen("toy", "q quit", console)
    for number in range(9):
        screen.show(TranscriptPiece(SoundSide.USER, f"{number} " + "word " * 30, final=True))
    screen.show(SCORES)
    lines = console.render_lines(screen.render(), pad=False)
    assert len(lines) < 20
    text = "".join(segment.text for line in lines for segment in line)
    assert "you: 8 word" in text
    assert "you: 1 word" not in text
    assert "share of pauses" in text


def test_the_screen_shows_that_the_user_spoke_over_the_reply_and_how_soon_it_stopped(
    screen: LiveScreen,
) -> None:
    record = spoken_turn(
        Case(case_id="turn-0001", script_id="turn-0001", variant=Variant.TARGET, audio_path=Path("a.flac"))
    )
    assert "over the reply" not in shown(screen, SpeechDetected(speaking=True))
    assert "you speak over the reply" in shown(screen, SpeechDetected(speaking=True, barge_in=True))
    steps = waterfall_of(record) or {}
    assert "stopped" not in shown(screen, TurnFinished(1, record, steps, 0))
    timing = replace(record.timing, barge_in_stop=Latency(412_000_000))
    text = shown(screen, TurnFinished(1, replace(record, timing=timing), steps, 0))
    assert "stopped 412 ms after you spoke" in text
    assert "voice to voice" in text


def test_the_screen_shows_both_sides_and_what_is_said(screen: LiveScreen) -> None:
    text = shown(
        screen,
        StateChanged(State.TALKING),
        Levels(-12, -90, muted=True),
        TranscriptPiece(SoundSide.REPLY, "[bold]Hel"),
        TranscriptPiece(SoundSide.REPLY, "lo\x1b"),
        TranscriptPiece(SoundSide.USER, "What?", final=True),
        EchoHeard(100, 0.5),
        StateChanged(State.DISCONNECTED, LOST),
    )
    for part in ("toy · manual · disconnected", "muted", "-12 dB", "[bold]Hello", "you: What?", "echo:"):
        assert part in text
    assert "\x1b" not in text
