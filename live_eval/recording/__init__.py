"""Read and write a run on disk: turns (`RunWriter`, `RunReader`) and scores (`ScoreStore`, `ScoreReader`).

A run is a folder::

    recordings/<run>/
        run.sqlite       manifest, turns, responses, events, failures; after the end, only attempts are added
        scores.sqlite    scores, keyed by judge and judge version
        reviews.json     labels and notes of reviewers, if any
        wire/            one cassette per attempt, with --record-wire
        audio/           FLAC: <turn>.reply.flac, <turn>.both.flac (left: user, right: endpoint)
"""

from live_eval.recording._database import sync_folder
from live_eval.recording._encoding import decoding
from live_eval.recording._files import is_own_file, own_bytes, own_file, own_folder, own_name, read_sound
from live_eval.recording.file_names import cassette_name, file_stem, utterance_id, utterance_name
from live_eval.recording.reader import FailedAttempt, RunReader, part_of, text_of
from live_eval.recording.record import TurnRecord
from live_eval.recording.reviews import Review, ReviewChange, keep_review, read_reviews
from live_eval.recording.schema import (
    AUDIO_FOLDER,
    RUN_FILE,
    RUN_SCHEMA_VERSION,
    SCORES_FILE,
    WIRE_FOLDER,
)
from live_eval.recording.scores import (
    JudgeProblem,
    PendingScores,
    ScoreReader,
    ScoreRow,
    ScoreStatus,
    ScoreStore,
    StoredAudit,
    is_being_scored,
)
from live_eval.recording.writer import RunWriter, is_being_written

__all__ = [
    "AUDIO_FOLDER",
    "RUN_FILE",
    "RUN_SCHEMA_VERSION",
    "SCORES_FILE",
    "WIRE_FOLDER",
    "FailedAttempt",
    "JudgeProblem",
    "PendingScores",
    "Review",
    "ReviewChange",
    "RunReader",
    "RunWriter",
    "ScoreReader",
    "ScoreRow",
    "ScoreStatus",
    "ScoreStore",
    "StoredAudit",
    "TurnRecord",
    "cassette_name",
    "decoding",
    "file_stem",
    "is_being_scored",
    "is_being_written",
    "is_own_file",
    "keep_review",
    "own_bytes",
    "own_file",
    "own_folder",
    "own_name",
    "part_of",
    "read_reviews",
    "read_sound",
    "sync_folder",
    "text_of",
    "utterance_id",
    "utterance_name",
]
