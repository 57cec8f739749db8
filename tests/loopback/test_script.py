"""Scripts over real sockets: a data set's utterances at their anchors in the conversation."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.from_turns import both_sides_of, conversation_of
from live_eval.analysis.turn_taking.speech import Conversation
from live_eval.recording import RunReader, TurnRecord
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.settings import Cadence
from live_eval.timing import AUDIBLE_DBFS
from live_eval.types import Anchor, AnchorKind, SpeechKind
from tests.loopback.run.test_runner import RATE, read, run, values
from tests.loopback.test_families import MS, endpoint

pytestmark = pytest.mark.usefixtures("own_cache")

LEAD_MS = 150
AFTER_NS = 500 * MS
SAMPLE_NS = 1_000_000_000 // RATE + 1


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A dialogue whose second utterance is a backchannel 500 ms into the reply to the first."""

    def turn(name: str, lead_ms: int) -> dict[str, Any]:
        speech = calibration_speech(300, RATE)
        pcm = speech.audio.int16()
        path = tmp_path / f"{name}.wav"
        soundfile.write(path, np.concatenate((np.zeros(lead_ms * RATE // 1000, np.int16), pcm)), RATE)
        part = {"onset_ms": lead_ms, "end_ms": lead_ms + speech.voice_end_sample * 1000 / RATE, "text": name}
        return {"audio": path.name, "text": name, "parts": [part]}

    second = {**turn("mm-hmm", LEAD_MS), "speech": "backchannel", "anchor": "reply_audible+500ms"}
    path = tmp_path / "script.jsonl"
    path.write_text(json.dumps({"id": "d", "turns": [turn("question", 0), second]}), "utf-8")
    return path


def audible_ns(turn: TurnRecord) -> int:
    """The playout time of the first sample of the turn's only response."""
    (marks,) = turn.responses
    assert marks.heard_ns
    return marks.heard_ns[0][0]


def session_of(
    out: Path, turns: Sequence[TurnRecord]
) -> tuple[Conversation, tuple[NDArray[np.int16], int] | None]:
    with RunReader.open(out) as reader:
        return conversation_of(reader, turns), both_sides_of(reader, turns)


@pytest.mark.parametrize(
    ("name", "processes"),
    [
        ("reference", 0),
        ("reference", 1),
        ("openai-webrtc", 0),
        pytest.param("openai-webrtc", 1, marks=pytest.mark.slow),
    ],
)
async def test_an_utterance_begins_at_its_anchor(
    manifest: Path, tmp_path: Path, name: str, processes: int
) -> None:
    out = tmp_path / "run"
    async with endpoint(tmp_path, reply_ms=1_200, delay_ms=50, cadence=Cadence.REALTIME) as served:
        settings = values(f"{served.origin}/v1", manifest, processes=processes, reply_timeout=0.5)
        settings["endpoint"]["name"] = name
        outcome = await run(settings, out)
    assert (outcome.captured, outcome.failed) == (2, 0)
    turns = await asyncio.to_thread(read, out)
    first, second = turns["d/1"], turns["d/2"]
    assert second.case.speech is SpeechKind.BACKCHANNEL
    assert second.case.anchor == Anchor(AnchorKind.REPLY_AUDIBLE, AFTER_NS)
    assert second.case.parts[0].onset_ns == LEAD_MS * MS
    onset_ns = second.trace.onset_ns
    assert onset_ns is not None
    heard_ns = await asyncio.to_thread(audible_ns, first)
    assert abs(onset_ns - heard_ns - AFTER_NS) <= SAMPLE_NS
    assert first.trace.barge_in_ns == onset_ns
    conversation, both = await asyncio.to_thread(session_of, out, [first, second])
    assert [speech.start_ns for speech in conversation.user] == [first.trace.onset_ns, onset_ns]
    assert abs(conversation.agent[0].sounds[0].start_ns - heard_ns) <= SAMPLE_NS
    assert conversation.speech_started_ns
    assert both is not None
    rate_hz = both[1]
    assert len(both[0]) / rate_hz == pytest.approx((conversation.end_ns - conversation.start_ns) / 1e9, abs=2)
    sides = zip((onset_ns, heard_ns), both[0].T, strict=True)
    for at_ns, side in sides:
        at = round((at_ns - conversation.start_ns) * rate_hz / 1e9)
        before = side[at - rate_hz // 10 : at - rate_hz // 1_000]  # filter ringing
        assert np.abs(before).max() < 32_768 * 10 ** (AUDIBLE_DBFS / 20)
        assert side[at : at + rate_hz // 100].any()
