"""A conversation with several endpoints on the screen and as lines."""

from io import StringIO

from rich.console import Console

from live_eval.errors import FailureKind
from live_eval.live.lines import Lines
from live_eval.live.screen import LiveScreen
from live_eval.live.standings import Standing
from live_eval.live.terminal import key_help
from live_eval.live.updates import (
    AudioSide,
    DeviceChanged,
    FromEndpoint,
    HeardChanged,
    Levels,
    QuickScores,
    SpeechDetected,
    State,
    StateChanged,
    TranscriptPiece,
    Update,
    Voted,
    Xruns,
)
from live_eval.types import Failure
from tests.unit.live.test_ballot import turn

GONE = StateChanged(State.DISCONNECTED, Failure(FailureKind.CLOSED, "gone"))
UPDATES: list[Update] = [
    *(FromEndpoint(place, StateChanged(State.TALKING)) for place in (0, 1)),
    Levels(-20.0, -90.0),
    FromEndpoint(0, SpeechDetected(speaking=True)),
    FromEndpoint(1, SpeechDetected(speaking=True)),
    FromEndpoint(0, SpeechDetected(speaking=False)),
    FromEndpoint(1, SpeechDetected(speaking=False)),
    FromEndpoint(1, TranscriptPiece(AudioSide.USER, "Good morning.", final=True)),
    FromEndpoint(0, TranscriptPiece(AudioSide.REPLY, "Hello")),
    FromEndpoint(0, TranscriptPiece(AudioSide.REPLY, "Hello there.", final=True)),
    FromEndpoint(0, Levels(-20.0, -30.0, replying=True)),
    FromEndpoint(0, Levels(-20.0, -90.0)),
    FromEndpoint(0, Xruns(input=1)),
    FromEndpoint(0, turn(1)),
    FromEndpoint(1, turn(1, fails=True)),
    FromEndpoint(0, QuickScores("turn-0001", {"dnsmos.p808": 3.91}, {}, "dnsmos", 1.5)),
    FromEndpoint(0, QuickScores("turn-0001", {}, {"ves": "no key"}, "ves", late=True)),
    DeviceChanged(AudioSide.REPLY, "'hall' has stopped."),
    HeardChanged(1),
    Voted(1, 0, (1, 0)),
    Voted(None, 1, (1, 0)),
    FromEndpoint(1, GONE),
    HeardChanged(None),
    FromEndpoint(1, StateChanged(State.ENDED)),
]


def test_the_endpoints_are_shown_side_by_side() -> None:
    output = StringIO()
    standings = [Standing("quick"), Standing("slow")]
    keys = key_help(manual=False, endpoints=2)
    with LiveScreen(standings, keys, Console(file=output, width=110)) as screen:
        for update in UPDATES:
            if isinstance(update, FromEndpoint):
                standings[update.place].follow(update.update)
            if not (isinstance(update, FromEndpoint) and isinstance(update.update, Levels)):
                screen.show(update)
        Console(file=output, width=110).print(screen.render())
    shown = output.getvalue()[-3_000:]
    assert "all in turn" in shown
    rows = [line for line in shown.splitlines() if "quick" in line or "slow" in line]
    assert any("580 ms" in row and "1 ★" in row and "listening" in row for row in rows)
    assert any("no_response" in row and "disconnected" in row and "–" in row for row in rows)
    assert "slow heard you say: Good morning." in shown
    assert "quick: Hello there." in shown
    assert "slow: disconnected: closed: gone" in shown
    assert "audio was lost" in shown
    assert "quick: DNSMOS: 3.91 MOS · ves: no score (no key) (1.5 s, late)" in shown
    assert "'hall' has stopped. Replies are not audible" in shown
    assert "v1–v2 vote" in shown
    assert "no vote: at least two replies are required" in shown


def test_the_endpoints_are_printed_as_lines() -> None:
    lines: list[str] = []
    screen = Lines(lines.append, ["quick", "slow"])
    for update in UPDATES:
        screen.show(update)
    assert lines[:3] == ["quick: ready: speak", "slow: ready: speak", "you speak"]
    assert lines.count("you speak") == 1
    assert lines[-6:] == [
        "you hear slow",
        "vote on turn 1: quick",
        "no vote: at least two replies are required, including the winner's",
        "slow: disconnected: closed: gone",
        "you hear all in turn",
        "slow: ended",
    ]


def test_notes_stay_visible_on_a_small_screen() -> None:
    console = Console(file=StringIO(), width=80, height=24, force_terminal=True)
    screen = LiveScreen([Standing(f"endpoint {place}") for place in range(4)], "q quit", console)
    for place in range(4):
        scores = {f"judge{number}.x": 3.0 for number in range(8)}
        screen.show(FromEndpoint(place, QuickScores("turn-0001", scores, number=1)))
        for number in range(9):
            screen.show(
                FromEndpoint(place, TranscriptPiece(AudioSide.REPLY, f"line {number} " * 12, final=True))
            )
    screen.show(DeviceChanged(AudioSide.REPLY, "'hall' has stopped."))
    rows = console.render_lines(screen.render())
    assert len(rows) < 24
    assert "'hall' has stopped" in "".join(segment.text for row in rows for segment in row)
