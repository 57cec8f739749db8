"""The clips of a report: lossless, compressed or omitted."""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.recording import RunReader
from live_eval.report import write_report
from live_eval.report.embedded_audio import clips
from tests.support.pages import Page
from tests.unit.report.pages import page_of, sounds_of


def test_audio_that_fits_is_lossless(page: Page, run_folder: Path) -> None:
    sounds = sounds_of(page)
    assert len(sounds) == 24
    assert {mime for mime, _ in sounds} == {"audio/flac"}
    with RunReader.open(run_folder) as run:
        kept = run.both_sides("id_0/target")
    assert kept is not None
    order = [attributes["id"] for attributes, _ in page.scripts if attributes.get("type") == "text/plain"]
    samples, rate_hz = soundfile.read(io.BytesIO(sounds[order.index("sound-t0")][1]), dtype="int16")
    np.testing.assert_array_equal(samples, kept[0])
    assert rate_hz == kept[1]


@pytest.mark.slow
def test_audio_beyond_the_limit_is_compressed_then_omitted_with_a_note(run_folder: Path) -> None:
    small = page_of(run_folder, audio_mb=0.1)
    sounds = sounds_of(small)
    assert 0 < len(sounds) < 24
    assert {mime for mime, _ in sounds} == {"audio/ogg"}
    assert sum(len(base64.b64encode(data)) for _, data in sounds) <= 100_000
    samples, _ = soundfile.read(io.BytesIO(sounds[0][1]))
    assert samples.shape[1] == 2
    assert f"audio of {len(sounds)} of 24 recorded turns; the rest exceeds the page's limit" in " ".join(
        small.text.split()
    )
    none = page_of(run_folder, audio_mb=0)
    assert sounds_of(none) == []
    assert "This page contains no audio" in none.text


def test_a_page_of_the_studio_streams_its_audio(run_folder: Path) -> None:
    text = write_report([run_folder], streams=["/api/runs/a1"])
    assert text is not None
    page = Page(text)
    assert sounds_of(page) == []
    assert "The studio streams the audio of 24 recorded turns." in page.text
    assert "media-src 'self'" in text
    assert "media-src blob:" not in text
    [streams] = [script for attributes, script in page.scripts if attributes.get("id") == "streams"]
    assert json.loads(streams) == ["/api/runs/a1"]
    assert text.count('"streamed":true') == 24


def test_missing_and_damaged_files_are_skipped(tmp_path: Path) -> None:
    there = tmp_path / "a.flac"
    soundfile.write(there, np.zeros((100, 2), np.int16), 8000, format="FLAC")
    assert [clip.key for clip in clips([("x", tmp_path / "gone.flac"), ("y", there)], 10**6)] == ["y"]
    assert list(clips([("y", there)], 0)) == []
    (tmp_path / "broken.flac").write_bytes(b"no sound" * 3000)
    warnings: list[str] = []
    damaged = [(key, tmp_path / "broken.flac") for key in "xz"]
    assert [clip.key for clip in clips([*damaged, ("y", there)], 20_000, warnings.append)] == ["y"]
    assert len(warnings) == 2
    assert "cannot read the audio" in warnings[0]


def test_a_long_turn_that_does_not_fit_is_skipped(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    loud = random.integers(-500, 500, (24_000, 2)).astype(np.int16)
    sounds = {"a": loud, "long": np.zeros((150 * 24_000, 2), np.int16), "b": loud}
    for key, pcm in sounds.items():  # writing 150 s in one call crashes libsndfile
        soundfile.write(tmp_path / f"{key}.flac", pcm, 24_000)
    files = [(key, tmp_path / f"{key}.flac") for key in sounds]
    assert [clip.key for clip in clips(files, 40_000)] == ["a", "b"]


def test_only_files_of_the_run_get_into_the_page(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    files = sorted((run / "audio").glob("*.both.flac"))
    secret = files[0].rename(tmp_path / "secret.flac")
    files[0].symlink_to(secret)
    files[1].unlink()
    (run / "report.html").symlink_to(tmp_path / "diary")
    (tmp_path / "diary").write_text("dear diary")
    page = page_of(run)
    assert len(sounds_of(page)) == 22
    assert "The audio of 2 turns is missing" in " ".join(page.text.split())
    written = write_report([run])
    assert written is not None
    assert base64.b64encode(secret.read_bytes()).decode() not in written
    assert "points outside the run folder" in written
    done = CliRunner().invoke(cli, ["report", str(run)])
    assert done.exit_code == 0
    assert not (run / "report.html").is_symlink()
    assert (tmp_path / "diary").read_text() == "dear diary"
