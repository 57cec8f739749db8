"""A conversation as lines and on the screen."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from live_eval.errors import FailureKind
from live_eval.live.lines import Lines, in_words
from live_eval.live.screen import LiveScreen
from live_eval.live.standings import Standing
from live_eval.live.updates import (
    AudioSide,
    EchoDetected,
    LatencyMeasured,
    Levels,
    QuickScores,
    SpeechDetected,
    State,
    StateChanged,
    TakeAsked,
    TakeChecked,
    TakeRepeated,
    TranscriptPiece,
    Update,
    Xruns,
)
from live_eval.timing import Latency
from live_eval.types import Case, Failure, Variant
from tests.support.records import spoken_turn

LOST = Failure(FailureKind.CLOSED, "the endpoint closed the connection")


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (StateChanged(State.TALKING), "ready: speak"),
        (
            StateChanged(State.SCORING),
            "waiting for scores; press q or Ctrl-C to exit now and run `live-eval score` later",
        ),
        (
            StateChanged(State.DISCONNECTED, LOST),
            "disconnected: closed: the endpoint closed the connection",
        ),
        (
            StateChanged(State.DISCONNECTED, Failure(FailureKind.CLOSED, "closed: by the service")),
            "disconnected: closed: by the service",
        ),
        (StateChanged(State.RECORDING), ""),
        (StateChanged(State.CHECKING), "checking the take; the first check loads the recogniser …"),
        (StateChanged(State.CHECKED), ""),
        (TakeAsked(2, 15, "I am home.", "with a sigh"), "take 2 of 15: say this with a sigh: I am home."),
        (
            TakeAsked(2, 15, "I am home.", "with a sigh", attempt=3),
            "take 2 of 15, attempt 3: say this with a sigh: I am home.",
        ),
        (TakeChecked(None, -23.2, 1.24), "the take has no problems (1.2 s, -23 dBFS)"),
        (
            TakeChecked("", -60.0, 1.2, ("too quiet", "clipped")),
            "the take has problems: too quiet; clipped (1.2 s, -60 dBFS, heard: nothing)",
        ),
        (
            TakeChecked(None, -90.0, 0.0, ("no speech was heard",), usable=False),
            "repeat the take: no speech was heard",
        ),
        (
            TakeRepeated(2, 15),
            "streaming the takes again (2 of 15), to compare styles with repeats; press q or Ctrl-C to omit",
        ),
        (SpeechDetected(speaking=True, barge_in=True), "you interrupt the reply"),
        (SpeechDetected(speaking=False), ""),
        (TranscriptPiece(AudioSide.USER, "Hi", final=True), "you: Hi"),
        (TranscriptPiece(AudioSide.REPLY, "He"), ""),
        (
            QuickScores("turn-0001", {"dnsmos.p808": 3.14159, "dnsmos.sig": 3.0}, {"c": "no text"}, number=1),
            "scores of turn 1: DNSMOS: 3.14 MOS; c: no score (no text)",
        ),
        (QuickScores("turn-0001", {}), ""),
        (Levels(-20, -90), ""),
        (
            Xruns(1, 2, 3, 4),
            "audio was lost, counted so far: 1 at the microphone, 2 at the loudspeaker, 3 late for the "
            "session, 4 dropped by the session",
        ),
        (Xruns(output=2), "audio was lost, counted so far: 2 at the loudspeaker"),
        (
            EchoDetected(120.4, 0.5),
            "echo: the microphone picks up the reply after 120 ms. Use headphones, or "
            "half-duplex (key h, --half-duplex)",
        ),
    ],
)
def test_an_update_in_words(update: Update, line: str) -> None:
    assert in_words(update) == line


def test_text_of_an_endpoint_cannot_control_the_terminal() -> None:
    written: list[str] = []
    Lines(written.append).show(TranscriptPiece(AudioSide.REPLY, "a\x1b[2Jb", final=True))
    assert written == ["reply: a [2Jb"]


SCORES = QuickScores(
    "turn-0001",
    {
        "dnsmos.p808": 3.14159,
        "dnsmos.sig": 3.5,
        "prosody.declination": -4.33,
        "prosody.pitch_hz": 181.27,
        "prosody.pauses": 12.345,
        "wer_spoken.normalized": 0.0,
        "wer_spoken.raw": 20.0,
    },
    number=3,
)
SHOWN = [
    "DNSMOS: 3.14 MOS",
    "word error rate of the spoken reply, Whisper-normalised: 0 %",
    "median pitch: 181 Hz",
    "share of pauses: 12.3 %",
]


@pytest.mark.parametrize(("streams", "line"), [("", "ready: speak"), ("the take", "streaming the take …")])
def test_a_person_may_speak_unless_recordings_are_streamed(streams: str, line: str) -> None:
    written: list[str] = []
    Lines(written.append, streams=streams).show(StateChanged(State.TALKING))
    assert written == [line]


def test_only_the_main_scores_are_printed_with_their_units() -> None:
    written: list[str] = []
    Lines(written.append).show(SCORES)
    assert written == [f"scores of turn 3: {'; '.join(SHOWN)}"]


def test_scores_of_judges_are_collected_and_late_ones_are_marked() -> None:
    first = QuickScores("turn-0001", {"dnsmos.p808": 3.0}, seconds=0.5)
    second = QuickScores("turn-0001", {}, {"utmos": "no weights"}, seconds=1.0, late=True)
    both = second.merged(first)
    assert (both.scores, both.problems, both.seconds) == (first.scores, second.problems, 1.5)
    newer = QuickScores("turn-0002", {}, number=2)
    assert (newer.merged(both), second.merged(newer)) == (newer, newer)
    assert in_words(both).endswith("utmos: no score (no weights) (1.5 s, late)")


def shown(screen: LiveScreen, *updates: Update) -> str:
    """Return the contents of the screen after some updates."""
    for update in updates:
        screen.show(update)
    console = Console(file=StringIO(), width=100, force_terminal=False)
    console.print(screen.render())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.fixture
def screen() -> LiveScreen:
    return LiveScreen(
        [Standing("toy · manual")], "q quit", Console(file=StringIO(), width=100, force_terminal=False)
    )


def test_the_screen_shows_the_main_scores(screen: LiveScreen) -> None:
    text = shown(screen, SCORES)
    assert all(line in text for line in ("scores of turn 3", *SHOWN))
    assert "slope of the pitch" not in text


def test_the_latest_transcript_stays_visible_on_a_small_screen() -> None:
    console = Console(file=StringIO(), width=80, height=20, force_terminal=False)
    screen = LiveScreen([Standing("toy")], "q quit", console)
    for number in range(9):
        screen.show(TranscriptPiece(AudioSide.USER, f"{number} " + "word " * 30, final=True))
    screen.show(SCORES)
    lines = console.render_lines(screen.render(), pad=False)
    assert len(lines) < 20
    text = "".join(segment.text for line in lines for segment in line)
    assert "you: 8 word" in text
    assert "you: 1 word" not in text
    assert "share of pauses" in text


def test_the_screen_shows_a_barge_in_and_how_soon_the_reply_stopped(
    screen: LiveScreen,
) -> None:
    record = spoken_turn(
        Case(case_id="turn-0001", script_id="turn-0001", variant=Variant.TARGET, audio_path=Path("a.flac"))
    )
    assert "over the reply" not in shown(screen, SpeechDetected(speaking=True))
    assert "you interrupt the reply" in shown(screen, SpeechDetected(speaking=True, barge_in=True))
    assert "stopped" not in shown(screen, LatencyMeasured(1, record, 0))
    timing = replace(record.timing, barge_in_stop=Latency(412_000_000))
    text = shown(screen, LatencyMeasured(1, replace(record, timing=timing), 0))
    assert "stopped 412 ms after you spoke" in text
    assert "voice to voice" in text


def test_the_screen_shows_levels_transcript_and_notes(screen: LiveScreen) -> None:
    text = shown(
        screen,
        StateChanged(State.TALKING),
        Levels(-12, -90, muted=True),
        TranscriptPiece(AudioSide.REPLY, "[bold]Hel"),
        TranscriptPiece(AudioSide.REPLY, "lo\x1b"),
        TranscriptPiece(AudioSide.USER, "What?", final=True),
        EchoDetected(100, 0.5),
        StateChanged(State.DISCONNECTED, LOST),
    )
    for part in ("toy · manual · disconnected", "muted", "-12 dB", "[bold]Hello", "you: What?", "echo:"):
        assert part in text
    assert "\x1b" not in text


def test_a_take_stays_on_the_screen_until_it_is_streamed() -> None:
    output = StringIO()
    screen = LiveScreen(
        [Standing("model")], "keys", Console(file=output, width=80, height=24, force_terminal=False)
    )
    screen.show(StateChanged(State.RECORDING))
    screen.show(TakeAsked(1, 3, "I am \x1b[2Jhome.", "in a whisper"))
    screen.show(Levels(-30, -90))
    shown = rendered(screen)
    assert "take 1 of 3: say this in a whisper" in shown
    assert "I am  [2Jhome." in shown
    screen.show(StateChanged(State.CHECKING))
    assert "model · checking" in rendered(screen)
    screen.show(StateChanged(State.CHECKED))
    screen.show(TakeChecked("I am home", -30, 1.0, ("too quiet",)))
    assert "too quiet" in rendered(screen)
    screen.show(StateChanged(State.STARTING))
    assert "whisper" not in rendered(screen)


def rendered(screen: LiveScreen) -> str:
    console = Console(file=StringIO(), width=80, height=24)
    with console.capture() as captured:
        console.print(screen.render())
    return captured.get()


def test_a_remark_on_a_state_lasts_as_long_as_the_state(screen: LiveScreen) -> None:
    assert "models load" in shown(screen, StateChanged(State.LAUNCHING))
    assert "models load" not in shown(screen, StateChanged(State.STARTING))
    assert "closed the connection" in shown(screen, StateChanged(State.DISCONNECTED, LOST))
    assert "closed the connection" not in shown(screen, StateChanged(State.STARTING))
    assert "closed the connection" in shown(
        screen, StateChanged(State.DISCONNECTED, LOST), StateChanged(State.ENDED)
    )


def test_a_judge_that_cannot_run_is_named_on_the_screen() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=False)
    screen = LiveScreen([Standing("toy")], "q quit", console, missing={"utmos": "weights"})
    assert "utmos cannot score, missing: weights" in shown(screen)
