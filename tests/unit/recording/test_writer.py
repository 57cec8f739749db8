"""Runs are written by a single writer, one whole turn at a time, and read back unchanged."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import soundfile

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, OpusEncoder
from live_eval.dialect import Usage
from live_eval.errors import FailureKind, StoreError, StoreLockedError
from live_eval.recording import (
    AUDIO_FOLDER,
    RUN_FILE,
    RUN_SCHEMA_VERSION,
    RunReader,
    RunWriter,
)
from live_eval.recording._database import is_local_disk
from live_eval.recording.file_names import file_stem
from live_eval.recording.record import TurnRecord, finish
from live_eval.redaction import SECRETS
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.timing import TIMING_VERSION, ResponseRecord, ResponseStatus, TurnTrace
from live_eval.types import Failure, SpeechBoundaries
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.recording.written import a_case, vars_of

MS = 1_000_000


MANIFEST = {"endpoint": {"name": "reference", "model": "made-up", "key": "***"}, "seed": 7}


def failed(name: str, *, attempt: int = 1) -> TurnRecord:
    plan = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "nothing came for 15 s"))
    return spoken_turn(a_case(name), plan, attempt=attempt)


def test_a_turn_is_read_as_written(tmp_path: Path) -> None:
    boundaries = SpeechBoundaries(
        onset_ns=0,
        voice_end_ns=800_000_000,
        words_end_ns=600_000_000,
        uncertain=True,
        reason="sound goes on",
        version="1",
        recogniser="whisper-tiny.en (faster-whisper 1.0, weights 0123)",
    )
    warnings = (Failure(FailureKind.UNKNOWN_EVENT, "what", 5),)
    record = spoken_turn(a_case(), TurnPlan(cut_off=2, warnings=warnings, boundaries=boundaries), repeat=1)
    with RunWriter.create(tmp_path / "run", MANIFEST) as run:
        run.commit(record)
        assert run.done() == {"id_1/target#2": True}
        run.end(finished=True)
    with RunReader.open(tmp_path / "run") as read:
        assert read.manifest == MANIFEST
        assert read.ended
        assert read.ended_at is not None
        [turn] = read.turns()
        assert turn.case == record.case
        assert (turn.turn_id, turn.repeat, turn.attempt) == ("id_1/target#2", 1, 1)
        assert turn.captured
        assert turn.warnings == tuple(record.warnings)
        assert (turn.reply_text, turn.heard_text) == ("I hear you.", "hello there")
        assert [r.status for r in turn.responses] == [ResponseStatus.CANCELLED] * 2 + [
            ResponseStatus.COMPLETED
        ]
        assert [r is turn.headline for r in turn.responses] == [False, False, True]
        assert turn.responses[0].reason == "turn_detected"
        assert turn.responses[2].usage == Usage(input_tokens=100, output_tokens=50)
        assert vars_of(turn.timing) == vars_of(record.timing)
        assert turn.timing_version == TIMING_VERSION
        for name in ("frame_deadline_ns", "frame_sent_ns", "probe_at_ns", "probe_lag_ns"):
            np.testing.assert_array_equal(getattr(turn.trace, name), getattr(record.trace, name), strict=True)
        for stored, was in zip(turn.trace.responses, record.trace.responses, strict=True):
            np.testing.assert_array_equal(stored.chunk_arrival_ns, was.chunk_arrival_ns, strict=True)
            np.testing.assert_array_equal(stored.chunk_samples, was.chunk_samples, strict=True)
            assert (stored.status, stored.created_ns, stored.rate_hz) == (
                was.status,
                was.created_ns,
                was.rate_hz,
            )
        assert turn.trace.speech_stopped_ns == record.trace.speech_stopped_ns
        assert turn.trace.boundaries_uncertain == record.trace.boundaries_uncertain
        assert turn.trace.boundaries == boundaries
        assert read.log(turn.turn_id) == list(record.log)


def test_audio_is_stored_losslessly(tmp_path: Path) -> None:
    record = spoken_turn(a_case())
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(record)
    with RunReader.open(tmp_path) as read:
        reply = read.reply(record.turn_id)
        both = read.both_sides(record.turn_id)
        [turn] = read.turns()
    drawn = turn.envelope
    assert reply is not None
    assert both is not None
    assert record.reply is not None
    assert record.both_sides is not None
    assert drawn is not None
    np.testing.assert_array_equal(reply.int16(), record.reply, strict=True)
    np.testing.assert_array_equal(both[0], record.both_sides, strict=True)
    assert both[1] == record.both_rate_hz
    assert turn.reply_file is not None
    assert soundfile.info(turn.reply_file).format == "FLAC"
    assert drawn.shape == (-(-len(record.both_sides) // 480), 2)
    loudest = np.abs(record.both_sides[:480].astype(int)).max(axis=0)
    np.testing.assert_array_equal(drawn[0], np.rint(255 * np.sqrt(loudest / 32768)))


def test_a_turn_can_be_retimed_with_every_response(tmp_path: Path) -> None:
    record = spoken_turn(a_case(), TurnPlan(cut_off=1, lead_silence_ms=123))
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(record)
    # An older definition with other values.
    with sqlite3.connect(tmp_path / RUN_FILE) as db:
        db.execute(
            "UPDATE turns SET timing_version = 0,"
            """ timing = replace(timing, '"premature":1', '"premature":9')"""
        )
    db.close()
    with RunReader.open(tmp_path) as read:
        assert read.turn(record.turn_id).timing.premature == 9
        assert read.turn(record.turn_id).timing_version == 0
        assert vars_of(read.turn(record.turn_id, retime=True).timing) == vars_of(record.timing)
        assert next(read.turns(retime=True)).timing_version == TIMING_VERSION


def greeted(codec: Codec, greeting: Sequence[bytes], reply: Sequence[bytes]) -> TurnRecord:
    """Return a turn of an endpoint that greets before the user speaks."""
    responses = [
        CapturedResponse(
            record=ResponseRecord(
                response_id=name,
                status=ResponseStatus.COMPLETED,
                done_ns=done_ms * 1_000_000,
                chunk_arrival_ns=np.full(len(chunks), (done_ms - 100) * MS, np.int64),
                text=name,
            ),
            chunks=chunks,
            codec=codec,
        )
        for name, done_ms, chunks in (("greeting", 150, greeting), ("answer", 3_000, reply))
    ]
    trace = TurnTrace(dial_ns=0, ready_ns=1, t0_ns=200_000_000, onset_ns=300_000_000, voice_end_ns=10**9)
    capture = TurnCapture(trace=trace, wire=responses, wall_ns=0)
    return finish(capture, a_case(), None, repeat=0, attempt=1)


def test_every_response_of_a_track_is_stored_as_it_sounds(tmp_path: Path) -> None:
    wave = (8_000 * np.sin(np.arange(9_600) / 9)).astype("<i2").tobytes()
    packets = OpusEncoder(OPUS_RATE_HZ).encode(wave)
    record = greeted(Codec(CodecName.OPUS, OPUS_RATE_HZ), packets, packets)
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(record)
    with RunReader.open(tmp_path) as read:
        [turn] = read.turns()
        assert vars_of(read.turn(record.turn_id, retime=True).timing) == vars_of(record.timing)
    for response, marks, pcm in zip(turn.responses, turn.trace.responses, record.audio, strict=True):
        assert response.audio_file is not None
        stored, rate_hz = soundfile.read(response.audio_file, dtype="int16")
        assert (rate_hz, len(stored)) == (OPUS_RATE_HZ, marks.chunk_samples.sum())
        np.testing.assert_array_equal(stored, pcm)


def test_retiming_may_choose_another_response_as_the_reply(
    tmp_path: Path,
) -> None:
    record = greeted(Codec(CodecName.PCM16, 24_000), [bytes(4_800)], [bytes(4_800)])
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(record)
    with sqlite3.connect(tmp_path / RUN_FILE) as db:  # unchanged
        db.execute("UPDATE responses SET headline = position = 0")
        db.execute("UPDATE turns SET reply_text = 'greeting', timing = json_set(timing, '$.headline', 0)")
    db.close()
    with RunReader.open(tmp_path) as read:
        turn, retimed = read.turn(record.turn_id), read.turn(record.turn_id, retime=True)
    assert (turn.reply_text, [one is turn.headline for one in turn.responses]) == ("greeting", [True, False])
    assert (retimed.reply_text, [one is retimed.headline for one in retimed.responses]) == (
        "answer",
        [False, True],
    )
    assert retimed.timing.first_byte.ns == 1_900_000_000
    assert retimed.reply_file == retimed.responses[1].audio_file


def test_a_failed_turn_is_stored_and_a_retried_attempt_only_as_a_failure(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.attempt_failed(failed("a"))
        assert run.done() == {}
        run.commit(failed("a", attempt=2))
        run.commit(spoken_turn(a_case("b")))
        assert run.done() == {"a": False, "b": True}
        with pytest.raises(StoreError, match="expected a failed attempt"):
            run.attempt_failed(spoken_turn(a_case("c")))
    with RunReader.open(tmp_path) as read:
        first, last = read.failures()
        assert (first.turn_id, first.attempt, first.retried) == ("a", 1, True)
        assert (last.turn_id, last.attempt, last.retried) == ("a", 2, False)
        turn = read.turn("a")
        assert turn.failure == Failure(FailureKind.NO_RESPONSE, "nothing came for 15 s")
        assert not turn.has_reply
        assert read.reply("a") is None
        assert read.both_sides("a") is not None, "the user's side is kept"
        with pytest.raises(StoreError, match="has no turn 'z'"):
            read.turn("z")


def test_a_turn_committed_again_keeps_the_earlier_attempt_and_its_audio(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(failed("a"))
        run.commit(spoken_turn(a_case("a")))
        assert run.done() == {"a": True}
        run.end(finished=True)
    with RunReader.open(tmp_path) as read:
        [turn] = read.turns()
        [before] = read.replaced("a")
        assert turn.captured
        assert before.failure is not None
        assert before.both_file is not None
        assert turn.both_file is not None
        assert {p.name for p in (tmp_path / AUDIO_FOLDER).iterdir()} == {
            before.both_file.name,
            turn.both_file.name,
            turn.reply_file.name if turn.reply_file else "",
        }
        [failure] = read.failures()
        assert failure.retried, "another attempt followed"


def test_an_ended_run_takes_further_attempts_where_it_is_asked_to(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.attempt_failed(failed("a", attempt=1))
        run.commit(failed("a", attempt=2))
        run.commit(spoken_turn(a_case("b")))
        run.end(finished=True)
    for attempt in (3, 4):
        with RunWriter.resume(tmp_path, ended=True) as run:
            assert run.attempts() == {"a": attempt - 1, "b": 1}
            run.commit(failed("a", attempt=attempt))
            run.end(finished=True)
    with RunReader.open(tmp_path) as read:
        assert read.ended
        assert [turn.attempt for turn in read.replaced("a")] == [2, 3]
        assert read.turn("a").attempt == 4
        assert read.replaced("b") == []
        assert [(each.attempt, each.retried) for each in read.failures()] == [
            (1, True),
            (2, True),
            (3, True),
            (4, False),
        ]


def test_an_ended_run_is_one_plain_file_and_never_changes(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case()))
        assert (tmp_path / ".run.lock").exists()
        run.end(finished=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == [AUDIO_FOLDER, RUN_FILE]
    with sqlite3.connect(f"file:{tmp_path / RUN_FILE}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert db.execute("PRAGMA user_version").fetchone()[0] == RUN_SCHEMA_VERSION
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()
    before = (tmp_path / RUN_FILE).read_bytes()
    with pytest.raises(StoreError, match="the run has ended"):
        RunWriter.resume(tmp_path)
    with pytest.raises(StoreError, match="continue it with --resume, or choose another --out"):
        RunWriter.create(tmp_path, MANIFEST)
    assert (tmp_path / RUN_FILE).read_bytes() == before
    assert not (tmp_path / ".run.lock").exists()


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a")))
        run.end(finished=False)
    with RunReader.open(tmp_path) as read:
        assert not read.ended
        assert read.state == "interrupted"
    with RunWriter.resume(tmp_path) as run:
        assert run.manifest == MANIFEST
        assert run.done() == {"a": True}
        run.commit(spoken_turn(a_case("b")))
        run.end(finished=True)
    with RunReader.open(tmp_path) as read:
        assert [turn.turn_id for turn in read.turns()] == ["a", "b"]


def test_a_killed_run_resumes_and_its_leftovers_are_removed(tmp_path: Path) -> None:
    """The process is killed without cleanup after storing audio, before committing its turn."""
    script = f"""
import os, sys
from pathlib import Path
from live_eval.recording import RunWriter
from tests.support.records import spoken_turn
from live_eval.types import Case, Variant
path = Path({str(tmp_path)!r})
def case(name): return Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path("x.wav"))
run = RunWriter.create(path, {{}})
run.commit(spoken_turn(case("whole")))
run._write_audio(spoken_turn(case("half")), "half-0000000000")
(path / "audio" / "half-0000000000-2.both.flac.part").write_bytes(b"fLaC")
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == 9
    assert (tmp_path / ".run.lock").exists()
    assert {p.name for p in (tmp_path / AUDIO_FOLDER).glob("half*")}
    with RunReader.open(tmp_path) as read:
        assert read.state == "running"
        assert [turn.turn_id for turn in read.turns()] == ["whole"]
    with RunWriter.resume(tmp_path) as run:
        assert run.done() == {"whole": True}
        assert not list((tmp_path / AUDIO_FOLDER).glob("half*"))
        assert len(list((tmp_path / AUDIO_FOLDER).iterdir())) == 2


def test_a_turn_whose_rows_cannot_be_written_leaves_no_files(tmp_path: Path) -> None:
    with (
        RunWriter.create(tmp_path, MANIFEST) as run,
        closing(sqlite3.connect(tmp_path / RUN_FILE, isolation_level=None)) as other,
    ):
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        with pytest.raises(StoreError, match=r"cannot store turn 'a'.*disk is full"):
            run.commit(spoken_turn(a_case("a")))
        other.execute("DROP TRIGGER full")
        assert run.done() == {}
        run.commit(spoken_turn(a_case("b")))
        run.end(finished=True)
    assert not list((tmp_path / AUDIO_FOLDER).glob("a-*")), "the end sweeps what was left"
    with sqlite3.connect(tmp_path / RUN_FILE) as db:
        assert db.execute("SELECT count(DISTINCT turn) FROM responses").fetchone()[0] == 1
    db.close()


def test_a_second_writer_is_refused_and_the_error_names_the_first(tmp_path: Path) -> None:
    with (
        RunWriter.create(tmp_path, MANIFEST),
        pytest.raises(StoreLockedError, match=rf"being written by process {os.getpid()} on "),
    ):
        RunWriter.resume(tmp_path)
    RunWriter.resume(tmp_path).close()


def test_the_lock_works_between_processes_and_ends_with_its_holder(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from live_eval.recording import RunWriter
run = RunWriter.create(Path({str(tmp_path)!r}), {{}})
print("ready", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(StoreLockedError, match=f"process {other.pid} on"):
            RunWriter.resume(tmp_path)
        other.kill()
    RunWriter.resume(tmp_path).close()


def test_a_run_that_died_during_creation_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).touch()
    with RunWriter.create(tmp_path, MANIFEST) as run:
        assert run.done() == {}


def test_odd_turn_ids_have_safe_unique_names(tmp_path: Path) -> None:
    names = [
        "../../etc/passwd",
        "a/b",
        "a b",
        "a-b",
        "ünïcödé 声",
        "",
        ".",
        "CON",
        "x" * 300,
        "A/B",
        "a/b#2",
        "\n",
    ]
    stems = [file_stem(name, 1) for name in names]
    assert len({stem.lower() for stem in stems}) == len(names)
    for stem in stems:
        assert len(stem) < 80
        assert all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in stem)
    with RunWriter.create(tmp_path, MANIFEST) as run:
        for name in names:
            run.commit(spoken_turn(a_case(name)))
    with RunReader.open(tmp_path) as read:
        assert [turn.turn_id for turn in read.turns()] == names
        assert all(read.reply(name) is not None for name in names)


def test_text_that_utf8_cannot_encode_does_not_lose_the_turn(tmp_path: Path) -> None:
    case = dataclasses.replace(a_case("a"), audio_path=Path(os.fsdecode(b"caf\xe9.wav")), text="half \ud83d")
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(case, TurnPlan(reply_text="half \ud83d", heard_text=None)))
    with RunReader.open(tmp_path) as read:
        assert read.turn("a").reply_text == "half ?"
        assert read.turn("a").case.text == "half ?"


def test_formats_that_the_endpoint_chose_become_the_line_of_the_run(tmp_path: Path) -> None:
    warning = Failure(FailureKind.AUDIO_FORMAT, "ulaw_8000 in, pcm_22050 out")
    turn = dataclasses.replace(spoken_turn(a_case("a")), warnings=(warning,))
    for known, line in (("", warning.message), ("8 kHz µ-law", "8 kHz µ-law")):
        folder = tmp_path / (known or "unknown")
        with RunWriter.create(folder, {"endpoint": {"name": "made-up", "line": known}}) as run:
            run.commit(turn)
        with RunReader.open(folder) as read:
            assert read.manifest["endpoint"] == {"name": "made-up", "line": line}


def test_a_secret_never_enters_a_manifest(tmp_path: Path) -> None:
    for manifest in (
        {"endpoint": {"key": "sk-1"}},
        {"endpoint": {"api_key": "abc"}},
        {"headers": [{"Authorization": "Bearer abc"}]},
        {"endpoint": {"access_token": "x"}},
    ):
        with pytest.raises(StoreError, match="appears to contain a secret") as caught:
            RunWriter.create(tmp_path, manifest)
        assert "abc" not in str(caught.value)
        assert not (tmp_path / RUN_FILE).exists()
    harmless = {
        "key": "***",
        "key_variable": "OPENAI_API_KEY",
        "max_output_tokens": 5,
        "turn": {"token": None},
    }
    assert SECRETS.exposed_in(harmless) is None


def test_a_secret_in_a_message_is_masked(tmp_path: Path) -> None:
    message = "Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwxyz."
    plan = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.AUTHENTICATION, message))
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a"), plan))
        run.end(finished=True)
    assert b"sk-proj" not in (tmp_path / RUN_FILE).read_bytes()


def test_a_secret_that_an_earlier_version_kept_is_not_read(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a"), TurnPlan(reply_text="Your key is quiet-4711-key, keep it.")))
        run.end(finished=True)
    SECRETS.learn("quiet-4711-key")
    with RunReader.open(tmp_path) as read:
        assert [turn.reply_text for turn in read.turns()] == ["Your key is ***, keep it."]


@pytest.mark.parametrize(
    ("folder", "local"),
    [
        ("/data/run", True),
        ("/net/run", False),
        ("/my disk/run", True),
        ("/data/fuse/run", False),
        ("/network", True),
    ],
)
def test_wal_is_used_only_on_disks_known_to_be_local(folder: str, local: bool) -> None:
    mounts = (
        "/dev/vda / ext4 rw 0 0\nserver:/x /net nfs4 rw 0 0\n/dev/vdb /my\\040disk xfs rw 0 0\n"
        "/dev/vdc /data btrfs rw 0 0\nsshfs /data/fuse fuse.sshfs rw 0 0\n"
    )
    assert is_local_disk(Path(folder), mounts) is local


def test_without_a_table_of_mounts_no_disk_is_known_to_be_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.recording._database._MOUNTS", tmp_path / "none")
    assert not is_local_disk(tmp_path)
    with RunWriter.create(tmp_path / "run", MANIFEST) as run:
        run.commit(spoken_turn(a_case()))
        assert not list((tmp_path / "run").glob("*-wal"))
        with RunReader.open(tmp_path / "run") as read:
            assert len(read) == 1
        run.end(finished=True)
