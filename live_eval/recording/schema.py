"""Define the tables of a run's databases, and their versions.

After a run has ended, only new attempts are added to ``run.sqlite``; ``scores.sqlite`` can be deleted and
recomputed. Times are nanoseconds on the monotonic clock of the machine that ran the sessions; ``wall_ns`` is
the only wall-clock time of a turn. Arrays are little-endian int64 blobs.
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing

__all__ = [
    "AUDIO_FOLDER",
    "KEPT_AUDIO",
    "REPLACED",
    "REPLACED_AUDIO",
    "REPLACED_TABLES",
    "RUN_FILE",
    "RUN_SCHEMA_VERSION",
    "RUN_TABLES",
    "RUN_VERSIONS_READ",
    "SCORES_FILE",
    "SCORES_SCHEMA_VERSION",
    "SCORES_TABLES",
    "USER_FOLDER",
    "WIRE_FOLDER",
    "column_types",
    "is_own_definition",
]

RUN_FILE = "run.sqlite"
SCORES_FILE = "scores.sqlite"
AUDIO_FOLDER = "audio"
WIRE_FOLDER = "wire"
USER_FOLDER = "user"
"""Folder with the user's utterances in a live run, one file per turn."""

RUN_SCHEMA_VERSION = 3
RUN_VERSIONS_READ = (2, RUN_SCHEMA_VERSION)
SCORES_SCHEMA_VERSION = 2

_RUN_TABLES = (
    """
    CREATE TABLE run (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        manifest TEXT NOT NULL,
        base TEXT NOT NULL,               -- the working folder, relative to the run's folder
        state TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'finished')),
        started_wall_ns INTEGER NOT NULL,
        ended_wall_ns INTEGER
    )
    """,
    """
    CREATE TABLE turns (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL UNIQUE,
        generation INTEGER NOT NULL,      -- number of the commit, part of the file names
        "case" TEXT NOT NULL,
        repeat INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        failure TEXT,
        warnings TEXT NOT NULL,
        reply_text TEXT,
        heard_text TEXT,
        session_id TEXT,
        model TEXT,
        wall_ns INTEGER NOT NULL,
        late_speech_frames INTEGER NOT NULL,
        skipped_silence_frames INTEGER NOT NULL,
        rate_limits TEXT NOT NULL,
        media TEXT,                       -- packet statistics of a media track
        timing TEXT NOT NULL,
        timing_version INTEGER NOT NULL,
        trace TEXT NOT NULL,
        frame_deadline_ns BLOB NOT NULL,
        frame_sent_ns BLOB NOT NULL,
        probe_at_ns BLOB NOT NULL,
        probe_lag_ns BLOB NOT NULL,
        both_file TEXT,
        both_rate_hz INTEGER,
        envelope BLOB                     -- uint8 pairs of both sides, one pair per 20 ms
    )
    """,
    """
    CREATE TABLE responses (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        headline INTEGER NOT NULL,
        marks TEXT NOT NULL,
        chunk_arrival_ns BLOB NOT NULL,
        chunk_samples BLOB NOT NULL,
        rate_hz INTEGER,
        text TEXT,
        reason TEXT NOT NULL,
        usage TEXT,
        audio_file TEXT,
        PRIMARY KEY (turn, position)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE events (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        at_ns INTEGER NOT NULL,
        direction TEXT NOT NULL CHECK (direction IN ('in', 'out')),
        body TEXT NOT NULL,
        PRIMARY KEY (turn, position)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE failures (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        retried INTEGER NOT NULL,
        wall_ns INTEGER NOT NULL,
        failure TEXT NOT NULL
    )
    """,
)

REPLACED = "replaced_"
"""Prefix of tables for replaced attempts (since version 3)."""


def _for_replaced(statement: str) -> str:
    """Convert a CREATE statement to one for the corresponding table of replaced attempts."""
    return (
        statement.replace("CREATE TABLE ", f"CREATE TABLE {REPLACED}")
        .replace("REFERENCES turns", f"REFERENCES {REPLACED}turns")
        .replace("NOT NULL UNIQUE", "NOT NULL")
    )


REPLACED_TABLES = tuple(map(_for_replaced, _RUN_TABLES[1:4]))
RUN_TABLES = (*_RUN_TABLES, *REPLACED_TABLES)

KEPT_AUDIO = """
    SELECT turn_id, both_file FROM turns WHERE both_file IS NOT NULL
    UNION ALL
    SELECT turn_id, audio_file FROM responses JOIN turns ON turns.id = turn WHERE audio_file IS NOT NULL
"""
"""Query for the audio files of turns, with turn IDs."""

REPLACED_AUDIO = KEPT_AUDIO.replace("turns", f"{REPLACED}turns").replace("responses", f"{REPLACED}responses")
"""Query for the audio files of replaced attempts."""

SCORES_TABLES = (
    """
    CREATE TABLE scores (
        id INTEGER PRIMARY KEY,
        judge TEXT NOT NULL,
        version TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('scored', 'unscored', 'failed')),
        "values" TEXT NOT NULL,
        reason TEXT NOT NULL,
        detail TEXT NOT NULL,
        UNIQUE (judge, version, turn_id)
    )
    """,
    """
    CREATE TABLE problems (
        judge TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        reason TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE answers (                -- cached answers of judge models
        question TEXT PRIMARY KEY,        -- hash of the model's complete input and the judge's version
        answer TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE audits (
        judge TEXT NOT NULL,
        version TEXT NOT NULL,
        wall_ns INTEGER NOT NULL,
        report TEXT NOT NULL,
        PRIMARY KEY (judge, version)
    ) WITHOUT ROWID
    """,
)

# Match quoted text too, since it may contain the start of a comment.
_COMMENT_OR_SPACE = re.compile(r"""('[^']*'|"[^"]*")|(?:--[^\n]*|\s)+""")

_PYTHON = {"INTEGER": int, "TEXT": str, "BLOB": bytes}


def is_own_definition(statement: str) -> bool:
    """Return whether a statement, ignoring comments, creates one of these tables in any readable version."""
    return _without_comments(statement) in _own_definitions()


@functools.cache
def _own_definitions() -> frozenset[str]:
    return frozenset(map(_without_comments, (*RUN_TABLES, *SCORES_TABLES)))


def _without_comments(statement: str) -> str:
    return _COMMENT_OR_SPACE.sub(lambda found: found[1] or " ", statement).strip()


@functools.cache
def column_types() -> Mapping[str, tuple[type, ...]]:
    """Return each column's types; columns with the same name have the same types in all tables."""
    kinds: dict[str, tuple[type, ...]] = {}
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in (*RUN_TABLES, *SCORES_TABLES):
            db.execute(statement)
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, name, kind, not_null, _, key in db.execute(f"PRAGMA table_info({table})"):
                nothing = () if not_null or key else (type(None),)
                kinds[name] = tuple(dict.fromkeys((_PYTHON[kind], *nothing, *kinds.get(name, ()))))
    return kinds
