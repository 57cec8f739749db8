"""Clips of replies and their context."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import soundfile

from live_eval.audio import Audio, int16_to_float
from live_eval.audio.speech_level import speech_level
from live_eval.errors import StoreError
from live_eval.studio.listening.clips import LEVEL_DBFS, RATE_HZ, case_context, reply_clip
from live_eval.studio.listening.listening_test import (
    ReferenceKind,
)
from tests.support.listening import write_listened_run


def test_all_replies_have_one_rate_and_one_level(tmp_path: Path) -> None:
    quiet = write_listened_run(tmp_path / "quiet", hz=300, cases=1, level=0.02)
    loud = write_listened_run(tmp_path / "loud", hz=300, cases=1, level=0.9)
    for run in (quiet, loud):
        pcm, rate_hz = soundfile.read(io.BytesIO(reply_clip(run, "id_0/target").wav), dtype="int16")
        assert rate_hz == RATE_HZ
        assert speech_level(Audio(int16_to_float(pcm), rate_hz)).dbfs == pytest.approx(LEVEL_DBFS, abs=0.2)


def test_the_context_depends_on_the_reference(runs: tuple[Path, Path]) -> None:
    nothing = case_context(runs[0], "id_0/target", ReferenceKind.NONE)
    assert (nothing.text, nothing.cue, nothing.user) == (None, None, None)
    heard = case_context(runs[0], "id_0/target", ReferenceKind.REPLY)
    assert (heard.text, heard.cue, heard.reference) == ("I missed the bus again.", "sigh sound", None)
    assert heard.user is not None
    assert heard.user.seconds == pytest.approx(1.1, abs=0.01)  # 800 ms of speech, 300 ms after it


def test_a_reference_outside_the_run_is_played_only_from_folders_of_the_user(tmp_path: Path) -> None:
    private = tmp_path / "private" / "diary.wav"
    private.parent.mkdir()
    soundfile.write(private, [0.1, -0.1] * 8_000, 16_000)
    run = write_listened_run(tmp_path / "run", hz=300, cases=1, reference=private)
    with pytest.raises(StoreError, match="outside the run") as error:
        case_context(run, "id_0/target", ReferenceKind.REPLY)
    assert "private" not in str(error.value)  # listeners see it
    allowed = case_context(run, "id_0/target", ReferenceKind.REPLY, [private.parent])
    assert allowed.reference is not None
    assert allowed.reference.seconds == 1.0
