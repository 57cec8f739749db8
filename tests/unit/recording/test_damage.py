"""Damaged and forged runs: every reader reports a one-line error and never crashes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from click.testing import CliRunner

from live_eval.analysis.summary.run_summary import summarise
from live_eval.cassettes import (
    Call,
    Cassette,
    Closed,
    Expected,
    Received,
    Sent,
    SessionReport,
    write_cassette,
)
from live_eval.cassettes.replay import replay_run
from live_eval.cli import cli
from live_eval.errors import FailureKind, LiveEvalError
from live_eval.export.table import ExportTable
from live_eval.judging import Failed, Scored
from live_eval.recording import (
    RUN_FILE,
    SCORES_FILE,
    WIRE_FOLDER,
    RunReader,
    RunWriter,
    ScoreStore,
    StoredAudit,
)
from live_eval.recording.schema import RUN_TABLES, SCORES_TABLES
from live_eval.scoring.scoring_run import AUDIO_NEEDS, read_turn
from live_eval.types import Failure, Secret
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.conftest import MANIFEST, a_case

Damage = Callable[[Path], object]

TRACES: Final = ("trace", "timing", "case", "warnings", "rate_limits", "failure", "media")
"""Columns of the table of turns that contain JSON."""
EXTREME: Final = 2**63 - 1
STEP, PARTS, SLOW_PARTS = 48, 3, 12
DEEP: Final = "[" * 100_000 + "]" * 100_000
CASSETTE: Final = f"{WIRE_FOLDER}/one-1.jsonl"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that can be damaged."""
    path = tmp_path_factory.mktemp("damage") / "whole"
    with RunWriter.create(path, MANIFEST) as run:
        lost = Failure(FailureKind.CLOSED, "gone")
        run.attempt_failed(spoken_turn(a_case(0), TurnPlan(first_byte_ms=None, failure=lost)))
        run.commit(spoken_turn(a_case(0), TurnPlan(cut_off=1, reply_ms=200), attempt=2))
        run.commit(spoken_turn(a_case(1), TurnPlan(first_byte_ms=None, failure=lost)))
        run.end(finished=False)
    with ScoreStore.open(path) as scores:
        scores.put("dnsmos", "1", "id_0/target", Scored({"ovrl": 3.0, "sig": 4.0}, {"model": "m"}))
        scores.put("bleu", "1", "id_0/target", Failed("no"))
        scores.cannot_run("ves", "1", "lacks a key")
        scores.put_audit(StoredAudit("dnsmos", "1", 5, {"consistency": {"outputs": {}, "n_failed": 1}}))
        scores.keep_answer("q", {"answer": 1})
    (path / WIRE_FOLDER).mkdir()
    steps = (
        Call(0, "opened", {}),
        Received(1, '{"type":"session.created","session":{"id":"s"}}'),
        Sent(2, '{"type":"session.update"}'),
        Call(2, "frame", {"pcm": bytes(960)}),
        SessionReport(3, "user_speaks", {"onset_ns": 5, "voice_end_ns": 7}),
        Expected(4, "ResponseStarted", {"response_id": "r"}),
        SessionReport(5, "failed", {"kind": "closed", "message": "gone"}),
        Closed(6, 1000, ""),
    )
    recorded = {
        "turn_id": "id_0/target",
        "attempt": 2,
        "endpoint": "reference",
        "limits": {"reply_s": 30.0},
        "origin_ns": 0,
    }
    cassette = Cassette("", "", steps, {"turn_mode": "server_vad"}, recorded)
    write_cassette(path / CASSETTE, cassette, Secret("key"))
    return path


def sql(file: str, *statements: str, values: tuple[object, ...] = ()) -> Damage:
    def damage(run: Path) -> None:
        with closing(sqlite3.connect(run / file, isolation_level=None)) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            db.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                db.execute(statement, values)

    return damage


def put(table: str, column: str, value: object) -> Damage:
    """A value in a column that the schema forbids there, or that no reader expects."""
    file = RUN_FILE if any(f"TABLE {table} (" in made for made in RUN_TABLES) else SCORES_FILE
    relaxed = "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'"
    first = f"(SELECT min({'turn' if table in ('responses', 'events') else '1'}) FROM {table})"
    where = f" WHERE turn = {first} AND position = 0" if table in ("responses", "events") else ""

    def damage(run: Path) -> None:
        sql(file, relaxed)(run)
        sql(file, f'UPDATE {table} SET "{column}" = ?{where}', values=(value,))(run)

    return damage


def content(file: str, change: Callable[[bytes], bytes]) -> Damage:
    def damage(run: Path) -> None:
        for path in run.glob(file):
            path.write_bytes(change(path.read_bytes()))

    return damage


def instead(file: str, make: Callable[[Path, Path], object]) -> Damage:
    """Replace files by other objects."""

    def damage(run: Path) -> None:
        for path in list(run.glob(file)):
            kept = path.rename(run.parent / f"kept-{path.name}")
            make(path, kept)

    return damage


def in_json(table: str, column: str, path: str, value: object) -> Damage:
    file = RUN_FILE if any(f"TABLE {table} (" in made for made in RUN_TABLES) else SCORES_FILE
    return sql(
        file,
        f'UPDATE {table} SET "{column}" = json_set("{column}", \'{path}\', json(?))',
        values=(json.dumps(value),),
    )


def in_cassette(line: int, change: Mapping[str, Any]) -> Damage:
    def damage(run: Path) -> None:
        path = run / CASSETTE
        lines = path.read_text().splitlines()
        lines[line] = json.dumps({**json.loads(lines[line]), **change})
        path.write_text("\n".join(lines))

    return damage


def flipped(data: bytes, seed: int) -> bytes:
    """Change a few bytes, the same ones for a seed."""
    changed = bytearray(data)
    for number in range(20):
        changed[(seed * 7919 + number * 104_729) % len(changed)] ^= 1 << (number % 8)
    return bytes(changed)


def pipe_beside(run: Path, suffix: str) -> None:
    os.mkfifo(run / f"{RUN_FILE}{suffix}")


def of_files() -> Iterator[tuple[str, Damage]]:
    for file in (RUN_FILE, SCORES_FILE, "audio/*.both.flac", "audio/*.reply.flac", CASSETTE):
        yield f"{file} empty", content(file, lambda _: b"")
        yield f"{file} half", content(file, lambda data: data[: len(data) // 2])
        yield f"{file} head alone", content(file, lambda data: data[:100])
        yield f"{file} other", content(file, lambda _: b"\xff\xfenothing of the kind" * 50)
        yield f"{file} zeroed within", content(file, lambda d: d[:4096] + bytes(len(d[4096:])))
        for seed in range(1, 9 if file.endswith("sqlite") else 4):
            yield f"{file} flipped {seed}", content(file, functools.partial(flipped, seed=seed))
        yield f"{file} a folder", instead(file, lambda path, _: path.mkdir())
        yield f"{file} gone", instead(file, lambda path, _: None)
        yield f"{file} a link out", instead(file, lambda path, kept: path.symlink_to(kept))
        yield f"{file} a broken link", instead(file, lambda path, _: path.symlink_to("nowhere"))
        yield f"{file} a loop", instead(file, lambda path, _: path.symlink_to(path.name))
        yield f"{file} a pipe", instead(file, lambda path, _: os.mkfifo(path))
        yield f"{file} endless", instead(file, lambda path, _: path.symlink_to("/dev/zero"))
    for suffix in ("-wal", "-shm", "-journal"):
        yield f"{suffix} a pipe", functools.partial(pipe_beside, suffix=suffix)
    yield "audio a link out", instead("audio", lambda path, kept: path.symlink_to(kept))
    yield "wire a link out", instead("wire", lambda path, kept: path.symlink_to(kept))
    yield "audio a file", instead("audio", lambda path, _: path.write_text("no folder"))


def of_columns() -> Iterator[tuple[str, Damage]]:
    for file, tables in ((RUN_FILE, RUN_TABLES), (SCORES_FILE, SCORES_TABLES)):
        yield f"{file} version", sql(file, "PRAGMA user_version = 99")
        for made in tables:
            table = made.split()[2]
            yield f"{table} dropped", sql(file, f"DROP TABLE {table}")
            yield f"{table} emptied", sql(file, f"DELETE FROM {table}")
            columns = [line.split()[0].strip('"') for line in made.splitlines()[2:] if " " in line.strip()]
            for column in columns:
                if column.isupper() or column in (")", "UNIQUE", "PRIMARY"):
                    continue
                for value in (None, "text", b"\xff\xfe\xfd", -1, 1e308, EXTREME):
                    yield f"{table}.{column} = {value!r}", put(table, column, value)
        endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c"
        for table in ("turns", "scores"):
            if any(f"TABLE {table} (" in made for made in tables):
                yield (
                    f"{table} an endless view",
                    sql(file, f"DROP TABLE {table}", f"CREATE VIEW {table} AS {endless}"),
                )
    yield "bad UTF-8", sql(RUN_FILE, "UPDATE turns SET reply_text = CAST(x'80ff' AS TEXT)")
    yield "NUL in a name", sql(RUN_FILE, "UPDATE turns SET both_file = 'a' || char(0) || 'b'")


def of_json() -> Iterator[tuple[str, Damage]]:
    columns: tuple[str, ...]
    value: object
    nested = '{"a":' * 600 + "1" + "}" * 600
    for table, columns in (
        ("run", ("manifest",)),
        ("turns", TRACES),
        ("responses", ("marks", "usage")),
        ("events", ("body",)),
        ("failures", ("failure",)),
        ("scores", ("values", "detail")),
        ("answers", ("answer",)),
        ("audits", ("report",)),
    ):
        for column in columns:
            for name, text in (
                ("deep", DEEP),
                ("nested", nested),
                ("broken", '{"a":'),
                ("list", "[1, 2]"),
                ("number", "5"),
                ("null", "null"),
                ("empty", "{}"),
                ("nan", '{"n":NaN}'),
                ("surrogate", '{"a":"\\ud800"}'),
            ):
                yield f"{table}.{column} {name}", put(table, column, text)
    for path in ("../../outside.flac", "/etc/passwd", "..", ".", "", "a/b", "x" * 5000):
        yield f"both_file {path[:20]}", put("turns", "both_file", path)
        yield f"audio_file {path[:20]}", put("responses", "audio_file", path)
    for key in ("dial_ns", "t0_ns", "voice_end_ns", "speech_stopped_ns", "setup_ns", "continuous"):
        for value in ("text", -(2**63), EXTREME, 10**30, [None], {"a": "b"}, None):
            yield f"trace.{key} = {value!r}", in_json("turns", "trace", f"$.{key}", value)
    for key in ("created_ns", "first_audio_ns", "status", "fresh_chunks", "response_id"):
        for value in ("text", -(2**63), 10**30, [9], None):
            yield f"marks.{key} = {value!r}", in_json("responses", "marks", f"$.{key}", value)
    for key in (
        "voice_to_voice.ns",
        "voice_to_voice",
        "lag_ns",
        "stalls",
        "stalled_ns",
        "headline",
        "flagged",
    ):
        for value in ("text", -(2**63), EXTREME, 10**30, 1e308, None):
            yield f"timing.{key} = {value!r}", in_json("turns", "timing", f"$.{key}", value)
    for key in (
        "audio_path",
        "case_id",
        "variant",
        "cue",
        "task",
        "turn_index",
        "text",
        "boundaries",
        "edges",
        "dialogue_id",
    ):
        for value in (5, "", "x" * 5000, "a\0b", [1], {"a": 1}):
            yield f"case.{key} = {str(value)[:20]!r}", in_json("turns", "case", f"$.{key}", value)
    for key in (
        "endpoint", "endpoint.name", "endpoint.model", "endpoint.turn_mode", "endpoint.base_url",
        "endpoint.comparable", "data", "data.name", "data.fingerprint", "data.licence", "turns", "seed",
        "config", "config.judges", "config.judges.names", "config.turns", "packages", "machine", "prompt",
        "prompt.name", "prompt.text", "config.endpoint",
    ):  # fmt: skip
        for value in (5, "text", [1, [2]], {"a": {"b": []}}, None, True):
            yield f"manifest.{key} = {value!r}", in_json("run", "manifest", f"$.{key}", value)
    for key in ("ovrl", "", "sig"):
        for value in ("text", None, 10**400, [1], True):
            yield f"values.{key} = {str(value)[:9]!r}", put("scores", "values", json.dumps({key: value}))
    for value in (5, {"outputs": {"a": 5}}, {"outputs": {"a": {"n": "x"}}}, {"n_failed": "x"}, [1]):
        for part in ("consistency", "order", "sensitivity", "agreement", "against"):
            yield f"audit {part} {value!r}", put("audits", "report", json.dumps({part: value}))
            inner = {"sensitivity": {"degradations": {"noise": value}}}
            yield f"audit degradations {part} {value!r}", put("audits", "report", json.dumps(inner))


def of_cassettes() -> Iterator[tuple[str, Damage]]:
    change: Mapping[str, object]
    for line in range(9):
        for change in (
            {"at_ms": 1e308},
            {"at_ms": "soon"},
            {"at_ms": None},
            {"at_ms": 10**400},
            {"more": 1},
            {"call": "no such"},
            {"settings": {"unknown": 1}},
            {"settings": {"turn_mode": "no such"}},
            {"settings": {"model": [1], "extra": 5, "turn_detection": "x"}},
            {"settings": 5},
            {"limits": {"unknown": 1}},
            {"limits": {"reply_s": "x"}},
            {"limits": 5},
            {"attempt": "x"},
            {"origin_ns": 1e308},
            {"origin_ns": 10**400},
            {"endpoint": "no such"},
            {"turn_id": 5},
            {"silence": 10**15},
            {"silence": -1},
            {"count": 10**12},
            {"pcm": "###"},
            {"message": 5},
            {"binary": "###"},
            {"closed": 5},
            {"rtp": {"sequence": "x"}},
            {"onset_ns": "x"},
            {"kind": "no such"},
            {"event": 5},
            {"turn": "over"},
            {"about": 5},
            {"cassette": 2},
        ):
            yield f"cassette {line} {str(change)[:60]}", in_cassette(line, change)
    yield "cassette deep", content(CASSETTE, lambda data: data + DEEP.encode())
    message = b'{"at_ms":1,"direction":"in","message":' + b"[" * 200
    yield "cassette deep message", content(CASSETTE, lambda data: data + message + b"]" * 200 + b"}")
    yield "cassette bad UTF-8", content(CASSETTE, lambda data: data + b"\xff\xfe")


DAMAGES: Final = dict([*of_files(), *of_columns(), *of_json(), *of_cassettes()])


def look_at(run: Path) -> None:
    """Read everything in a run, and summarise it."""
    with RunReader.open(run) as reader:
        summary = summarise(reader)
        orjson.dumps(summary.as_json())
        for row in ExportTable(reader).rows():
            orjson.dumps(row)
        reader.tasks_by_reply_length()
        reader.failures()
        for turn in summary.turns:
            reader.log(turn.turn_id)
            read_turn(reader, reader.turn(turn.turn_id), AUDIO_NEEDS)
    list(replay_run(run))


def commands(run: Path, other: Path) -> list[list[str]]:
    """Run every command that reads a run."""
    out = ["-o", str(other.parent / "out")]
    return [
        *(["show", str(run), *more] for more in ([], ["--json"], ["--retime"])),
        *(["report", str(run), "--format", form, *out] for form in ("html", "md", "csv", "json")),
        *(["export", str(run), "--format", form, *out] for form in ("jsonl", "csv")),
        ["compare", str(other), str(run)],
        ["leaderboard", str(run), "--format", "html", *out],
        ["replay", str(run)],
        ["score", str(run), "--judges", "bleu"],
    ]


def damaged(whole: Path, folder: Path, name: str) -> Path:
    """Return a damaged copy of the run."""
    run = folder / "in" / "run"
    shutil.copytree(whole, run)
    with contextlib.suppress(sqlite3.Error):  # a constraint that is still enforced
        DAMAGES[name](run)
    return run


def wrong_end(error: BaseException | None) -> str:
    """Return a description of a reader's misbehaviour; empty if there is none."""
    if error is None or isinstance(error, SystemExit):
        return ""
    if isinstance(error, LiveEvalError):
        return f"more than one line: {error}" if "\n" in str(error) else ""
    return repr(error)


@pytest.mark.timeout(20)  # a pipe or an endless view would block it forever
@pytest.mark.parametrize("part", range(PARTS))
def test_damage_ends_in_a_one_line_error(whole: Path, tmp_path: Path, part: int) -> None:
    ends: dict[str, str] = {}
    for number, name in enumerate(list(DAMAGES)[part * STEP // PARTS :: STEP]):
        run = damaged(whole, tmp_path / str(number), name)
        try:
            look_at(run)
        except Exception as error:
            ends[name] = wrong_end(error)
    assert {name: end for name, end in ends.items() if end} == {}
    assert len(ends) > 10


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(SLOW_PARTS))
def test_no_command_crashes_on_a_damaged_run(whole: Path, tmp_path: Path, part: int) -> None:
    ends: dict[str, str] = {}
    for number, name in enumerate(list(DAMAGES)[part::SLOW_PARTS]):
        folder = tmp_path / str(number)
        run = damaged(whole, folder, name)
        for arguments in commands(run, whole):
            end = wrong_end(CliRunner().invoke(cli, arguments).exception)
            if end:
                ends[f"{arguments[0]}, {name}"] = end
        shutil.rmtree(folder)
    assert ends == {}
