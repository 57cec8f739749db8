"""Detection of speech during its arrival."""

from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import resample
from live_eval.audio.audio_files import read_audio
from live_eval.session.live_speaker import Live
from live_eval.session.speaker import UtteranceBegan, UtteranceEnded

MS = 1_000_000


S = 1_000_000_000


SPEECH = Path("live_eval/data/sample/data_human/audio/breath/le_102_breath_family_target.flac")


@pytest.mark.parametrize("device_hz", [16_000, 44_100, 48_000])
def test_an_utterance_is_found_while_it_is_spoken(device_hz: int) -> None:
    """The detected boundaries of a recording between two seconds of silence match the recording."""
    recording = resample(read_audio(SPEECH).audio, device_hz).int16()
    loud = np.flatnonzero(np.abs(recording.astype(np.int32)) > 300)
    noise = np.random.default_rng(1).normal(0, 8, 2 * device_hz).astype(np.int16)
    pcm = np.concatenate((noise[:device_hz], recording, noise[device_hz:]))
    live = Live(device_hz=device_hz, rate_hz=24_000, frame_ns=20 * MS)
    block = device_hz // 50
    began: list[tuple[int, UtteranceBegan]] = []
    ended: list[tuple[int, UtteranceEnded]] = []
    for number in range(len(pcm) // block):
        now_ns = (number + 1) * 20 * MS
        live.push(pcm[number * block : (number + 1) * block], now_ns)
        frame = live.frame(now_ns, now_ns)
        assert frame is not None
        assert len(frame.pcm) == 960
        if frame.began is not None:
            began.append((now_ns, frame.began))
        if frame.ended is not None:
            ended.append((now_ns, frame.ended))
    onset_ns = S + int(loud[0]) * S // device_hz + 60 * MS
    end_ns = S + int(loud[-1]) * S // device_hz + 60 * MS
    assert abs(began[0][1].onset_ns - onset_ns) < 100 * MS
    found_ns = began[-1][1].t0_ns + ended[-1][1].boundaries.voice_end_ns
    assert abs(found_ns - end_ns) < 100 * MS
    assert ended[-1][1].boundaries.method == "webrtcvad"
    assert ended[-1][0] - found_ns < 500 * MS, "the end is found while the session goes on"
    live.stop()
    assert live.frame(0, 0) is None
