"""Replays of sessions over memory transports, however they ended and however their cassettes were changed."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.audio import Codec, CodecName
from live_eval.cassettes import Cassette, read_cassette, write_cassette
from live_eval.cassettes.replay import Replayed, replay_file, replay_run
from live_eval.cli import main
from live_eval.cli.replay import command
from live_eval.clients.specs import OPENAI
from live_eval.clock import Clock
from live_eval.dialect import (
    Close,
    Dial,
    EndpointSettings,
    Interrupted,
    Message,
    Output,
    Reconnect,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
)
from live_eval.errors import ConnectError, DataError, FailureKind, UsageError
from live_eval.recording import RUN_FILE, WIRE_FOLDER, RunReader, RunWriter
from live_eval.recording.record import finish
from live_eval.session import Session, Utterance
from live_eval.session.limits import SessionLimits
from live_eval.testing import FakeClock, MemoryPeer, memory_pair
from live_eval.timing import ResponseStatus
from live_eval.transport import Transport
from live_eval.types import Case, Secret, SpeechBoundaries, TurnMode, Variant

MS = 1_000_000
START_NS = 987_654_321_000
BOUNDARIES = SpeechBoundaries(onset_ns=0, voice_end_ns=900 * MS)
TURN = Utterance(frames=[bytes([1, 0]) * 320] * 50, frame_ns=20 * MS, boundaries=BOUNDARIES)
LIMITS = SessionLimits(connect_s=5, ready_s=2, reply_s=3, stall_s=2, max_reply_s=20, linger_s=0.2)
CASE = Case(case_id="one", script_id="one", variant=Variant.TARGET, audio_path=Path("one.wav"))
AUDIO = ReplyAudio("r", bytes([0, 40]) * 2_400, Codec(CodecName.PCM16, 24_000))
GOLDEN = Path(__file__).parents[2] / "conformance" / "golden" / "openai" / "ordinary_turn.jsonl"


class Words:
    """A dialect whose messages are words that name the outputs."""

    needs_continuous_input = False
    continuous_media = False

    def __init__(self, settings: EndpointSettings) -> None:
        self.secrets: set[str] = set()
        self.dials = 0

    def dial(self) -> Dial:
        self.dials += 1
        return Dial("memory://")

    def opened(self, at_ns: int) -> Sequence[Output]:
        return [Send("hello"), Send("again" if self.dials > 1 else "first")]

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        outputs: dict[Message, list[Output]] = {
            "ready": [SessionReady("s")],
            "move": [Send("moving"), Reconnect()],
            "reply": [ResponseStarted("r"), Send("thanks"), AUDIO, ReplyText("r", "Hm.")],
            "more": [AUDIO],
            "stop": [Interrupted("r"), ResponseDone("r", ResponseStatus.COMPLETED)],
            "done": [ResponseDone("r", ResponseStatus.COMPLETED)],
            "wait": [SetTimer("late", at_ns + 100 * MS)],
        }
        return outputs[message]

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return [Send(pcm)]

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        return [Send("over")]

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        return [Send(f"heard {heard_ms}")]

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return [Send("late"), ResponseDone("r", ResponseStatus.COMPLETED)]

    def finish(self, at_ns: int) -> Sequence[Output]:
        return [Send("bye"), Close()]

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        return []

    def redact(self, message: Message) -> dict[str, Any]:
        return {"type": str(message)}


Script = Sequence[tuple[int, str]]


@dataclass(frozen=True)
class Endpoint:
    """Return the endpoint's messages by time in ms; one script per connection."""

    scripts: Sequence[Script]
    ends_at_ms: int | None = None
    refuse: ConnectError | None = None
    slow_ms: int = 0
    """Time to pass on a message."""

    async def play(self, script: Script, peer: MemoryPeer, clock: FakeClock) -> None:
        for at_ms, word in script:
            await clock.sleep_until(START_NS + at_ms * MS)
            peer.send(word)
        if self.ends_at_ms is not None:
            await clock.sleep_until(START_NS + self.ends_at_ms * MS)
            peer.close(1011, "gone")


ORDINARY = Endpoint([[(10, "ready"), (1_200, "reply"), (1_260, "more"), (1_400, "done")]])


async def hold(endpoint: Endpoint, mode: TurnMode) -> tuple[Session, Any]:
    clock = FakeClock(START_NS)
    tasks: list[asyncio.Task[None]] = []

    def connect(_: Clock) -> Transport:
        transport, peer = memory_pair(clock, refuse=endpoint.refuse)
        script = endpoint.scripts[min(len(tasks), len(endpoint.scripts) - 1)]
        tasks.append(asyncio.create_task(endpoint.play(script, peer, clock)))
        if endpoint.slow_ms:
            send = transport.send

            async def slowly(message: Message) -> None:
                if isinstance(message, str):
                    await clock.sleep_until(clock.now_ns() + endpoint.slow_ms * MS)
                await send(message)

            transport.send = slowly  # type: ignore[method-assign]
        return transport

    settings = EndpointSettings(base_url="memory://")
    session = Session(Words(settings), connect, clock, turn_mode=mode, limits=LIMITS, records_wire=True)
    try:
        (capture,) = await session.converse([TURN])
    finally:
        for task in tasks:
            task.cancel()
    return session, capture


def record(
    folder: Path, endpoint: Endpoint, mode: TurnMode = TurnMode.MANUAL, *, retried: bool = False
) -> Path:
    """Make a run of one turn, and return its cassette."""
    session, capture = asyncio.run(hold(endpoint, mode))
    record = finish(replace(capture, log=session.log()), CASE, None, repeat=0, attempt=1)
    with RunWriter.create(folder, {}) as writer:
        if retried:
            writer.attempt_failed(record)
        else:
            writer.commit(record)
        writer.end()
    (folder / WIRE_FOLDER).mkdir()
    path = folder / WIRE_FOLDER / "one-1.jsonl"
    recorded = {
        "turn_id": "one",
        "attempt": 1,
        "endpoint": "words",
        "limits": asdict(LIMITS),
        "origin_ns": START_NS,
    }
    steps = session.wire.steps()
    write_cassette(path, Cassette("", "", steps, {"turn_mode": mode}, recorded), Secret("key"), START_NS)
    return path


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every client use the word dialect."""
    monkeypatch.setattr("live_eval.cassettes.replay.client", lambda _: OPENAI)
    monkeypatch.setattr("live_eval.cassettes.replay.load", lambda _: Words)


def only(outcomes: Sequence[Replayed]) -> Replayed:
    (outcome,) = outcomes
    return outcome


SESSIONS: dict[str, tuple[Endpoint, FailureKind | None]] = {
    "ordinary": (ORDINARY, None),
    "interrupted": (
        Endpoint([[(10, "ready"), (1_200, "reply"), (1_250, "stop")]]),
        FailureKind.RESPONSE_CANCELLED,
    ),
    "by timer": (Endpoint([[(10, "ready"), (1_200, "reply"), (1_250, "wait")]]), None),
    "slow to send": (replace(ORDINARY, slow_ms=30), None),
    "moved": (Endpoint([[(10, "ready"), (300, "move")], [(1_200, "reply"), (1_300, "done")]]), None),
    "moved while speaking": (
        Endpoint([[(10, "ready"), (300, "move")], [(1_200, "reply"), (1_300, "done")]], slow_ms=30),
        None,
    ),
    "refused": (
        Endpoint([[]], refuse=ConnectError(FailureKind.AUTHENTICATION, "who are you?")),
        FailureKind.AUTHENTICATION,
    ),
    "never ready": (Endpoint([[]]), FailureKind.NO_SESSION),
    "closed": (Endpoint([[(10, "ready"), (1_200, "reply")]], ends_at_ms=1_300), FailureKind.CLOSED),
    "silent": (Endpoint([[(10, "ready")]]), FailureKind.NO_RESPONSE),
    "stalled": (Endpoint([[(10, "ready"), (1_200, "reply")]]), FailureKind.STALLED),
    "a defect": (Endpoint([[(10, "ready"), (500, "what?")]]), FailureKind.INTERNAL),
}


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("mode", [TurnMode.MANUAL, TurnMode.SERVER_VAD])
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_is_replayed_to_the_nanosecond(tmp_path: Path, name: str, mode: TurnMode) -> None:
    endpoint, failure = SESSIONS[name]
    run = tmp_path / "run"
    record(run, endpoint, mode)
    with RunReader.open(run) as reader:
        stored = reader.turn("one")
    assert (stored.failure.kind if stored.failure is not None else None) is failure
    outcome = only([*replay_run(run)])
    assert outcome.differences == ()
    assert outcome.kept
    assert outcome.latencies_ns["voice_to_voice"] == stored.timing.voice_to_voice.ns
    assert outcome.latencies_ns["connect"] == stored.timing.connect.ns


@pytest.mark.usefixtures("words")
def test_a_retried_attempt_is_replayed(tmp_path: Path) -> None:
    path = record(tmp_path / "run", SESSIONS["stalled"][0], retried=True)
    outcome = only([*replay_run(tmp_path / "run")])
    assert not outcome.kept
    assert outcome.differences == ()
    assert outcome.events == 4
    doctor(path, lambda line: line.get("message") == "reply")
    outcome = only([*replay_run(tmp_path / "run")])
    assert "the dialect no longer reports ResponseStarted at 1.200000000 s" in outcome.differences
    assert outcome.differences[-1].startswith("failure: now None, before ('stalled'")


def doctor(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change lines of a cassette; drop those for which `change` returns True."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kept = [line for line in lines if change(line) is not True]
    path.write_text("\n".join(map(json.dumps, kept)), "utf-8")


def audio_later(line: dict[str, Any]) -> None:
    if line.get("message") == "more":
        line["at_ms"] += 0.000001


def another_text(line: dict[str, Any]) -> None:
    if line.get("event") == "ReplyText":
        line["text"] = "Ah."


def another_sound(line: dict[str, Any]) -> None:
    if line.get("event") == "ReplyAudio":
        line["crc32"] += 1


def one_event_more(line: dict[str, Any]) -> bool:
    return line.get("event") == "ReplyText"


def one_event_less(line: dict[str, Any]) -> bool:
    return line.get("message") == "more"


def one_message_more(line: dict[str, Any]) -> bool:
    return line.get("message") == "thanks"


def another_message(line: dict[str, Any]) -> None:
    if line.get("message") == "thanks":
        line["message"] = "thank you"


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            audio_later,
            "the dialect now reports ReplyAudio at 1.260000001 s instead of ReplyAudio at 1.260000000 s",
        ),
        (audio_later, "chunk_arrival_ns of response r: now"),
        (another_text, "text of ReplyText at 1.200000000 s: now 'Hm.', before 'Ah.'"),
        (another_sound, "crc32 of ReplyAudio at"),
        (one_event_more, "the dialect now reports ReplyText at 1.200000000 s"),
        (one_event_less, "the dialect no longer reports ReplyAudio at 1.260000000 s"),
        (one_message_more, "the dialect now sends 'thanks'"),
        (another_message, "the dialect no longer sends 'thank you'"),
    ],
)
def test_differences_are_reported(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = record(tmp_path / "run", ORDINARY)
    doctor(path, change)
    outcome = only([*replay_run(tmp_path / "run")])
    assert any(difference.startswith(message) for difference in outcome.differences), outcome.differences
    result = CliRunner().invoke(command, [str(tmp_path / "run")])
    assert result.exit_code == 3
    assert message in result.output
    assert result.output.endswith("0 of 1 sessions match the stored turns\n")


@pytest.mark.usefixtures("words")
def test_latencies_of_older_definitions_are_recomputed(tmp_path: Path) -> None:
    record(tmp_path / "run", ORDINARY)
    with sqlite3.connect(tmp_path / "run" / RUN_FILE) as db:
        (timing,) = db.execute("SELECT timing FROM turns").fetchone()
        older = json.loads(timing) | {"stalls": 7}
        db.execute("UPDATE turns SET timing = ?", (json.dumps(older),))
    db.close()
    assert only([*replay_run(tmp_path / "run")]).differences == ("stalls: now 0, before 7",)
    with sqlite3.connect(tmp_path / "run" / RUN_FILE) as db:
        db.execute("UPDATE turns SET timing_version = 0")
    db.close()
    assert only([*replay_run(tmp_path / "run")]).differences == ()


@pytest.mark.usefixtures("words")
def test_a_recording_is_replayed_without_its_run(tmp_path: Path) -> None:
    path = record(tmp_path / "run", ORDINARY)
    alone = path.rename(tmp_path / "attached.jsonl")
    outcome = replay_file(alone)
    assert outcome == Replayed("one", 1, False, 6, ())
    result = CliRunner().invoke(command, [str(alone)])
    assert result.output == "one: equal: 6 events\n1 of 1 sessions match the stored turns\n"
    doctor(alone, another_text)
    assert CliRunner().invoke(command, [str(alone)]).exit_code == 3


def test_a_golden_session_is_replayed(tmp_path: Path) -> None:
    outcome = replay_file(GOLDEN, "openai")
    assert outcome.differences == ()
    assert outcome.events > 5
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(GOLDEN.read_text("utf-8").replace('"bytes": ', '"bytes": 1'), "utf-8")
    result = CliRunner().invoke(command, [str(wrong), "--endpoint", "openai", "--json"])
    assert result.exit_code == 3
    (row,) = json.loads(result.output)
    assert row["equal"] is False
    assert "expected ReplyAudio" in row["differences"][0]


def test_an_unplayable_cassette_is_a_data_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=r"missing turn_id, .*; .*--endpoint"):
        replay_file(GOLDEN)
    with pytest.raises(UsageError, match="single cassette"):
        CliRunner().invoke(command, [str(GOLDEN), "--turn", "x"], catch_exceptions=False)
    with pytest.raises(SystemExit) as left:
        main(["replay", str(GOLDEN)])
    assert left.value.code == 2
    assert "--endpoint" in capsys.readouterr().err
    assert read_cassette(GOLDEN).recorded == {}
