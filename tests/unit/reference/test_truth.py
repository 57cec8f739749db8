import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.errors import DataError
from live_eval.reference.engine.events import (
    AudioPiece,
    Reaction,
    ResponseCreated,
    ResponseEnded,
    ServerResponse,
    TextPiece,
    UserUtterance,
    VoiceEnd,
)
from live_eval.reference.truth import TruthFile, TruthKeeper, read_truth
from live_eval.timing import ResponseStatus

MS = 1_000_000
PCM = Codec(CodecName.PCM16, 24_000)


def response(voice_end_ns: int | None = 1_000 * MS) -> ServerResponse:
    voice_end = None if voice_end_ns is None else VoiceEnd(voice_end_ns, "mark")
    return ServerResponse("resp_1", "item_1", True, PCM, voice_end, "")


def piece(
    of: ServerResponse,
    onset_sample: int | None,
    samples: int = 480,
    ends: NDArray[np.bool_] | None = None,
) -> AudioPiece:
    return AudioPiece(of, b"", samples, 24_000, onset_sample, "constructed", ends)


def test_the_onset_follows_the_playout_rule() -> None:
    keeper, answer = TruthKeeper("sess_1"), response()
    assert keeper.sent(ResponseCreated(answer), 1_001 * MS) is None
    keeper.sent(TextPiece(answer, "x"), 1_190 * MS)
    keeper.sent(TextPiece(answer, "y"), 1_199 * MS)
    # Chunks of 20 ms: the second comes 15 ms late, the third is early and waits for the second.
    for sent_ms in (1_200, 1_235, 1_236):
        keeper.sent(piece(answer, onset_sample=960 + 240), sent_ms * MS)
    answer.status = ResponseStatus.COMPLETED
    truth = keeper.sent(ResponseEnded(answer), 1_300 * MS)
    assert truth is not None
    assert truth.created_ns == 1_001 * MS
    assert truth.first_text_ns == 1_190 * MS
    assert truth.first_byte_ns == 200 * MS
    assert truth.voice_to_voice_ns == (235 + 20 + 10) * MS
    assert (truth.status, truth.turn, truth.voice_end_by) == ("completed", 0, "mark")
    assert keeper.closed() == []


def test_missing_times_are_none() -> None:
    keeper, answer = TruthKeeper("sess_1"), response(None)
    keeper.sent(ResponseCreated(answer), 0)
    keeper.sent(piece(answer, onset_sample=None), 5)
    (truth,) = keeper.closed()
    assert (truth.voice_end_ns, truth.first_byte_ns, truth.voice_to_voice_ns) == (None, None, None)
    assert (truth.status, truth.reason) == ("open", "connection closed")


def test_an_unsent_onset_has_no_time() -> None:
    keeper, answer = TruthKeeper("sess_1"), response()
    keeper.sent(ResponseCreated(answer), 0)
    keeper.sent(piece(answer, onset_sample=480), 1_200 * MS)
    truth = keeper.sent(ResponseEnded(answer), 1_300 * MS)
    assert truth is not None
    assert truth.first_byte_ns == 200 * MS
    assert truth.voice_to_voice_ns is None


@pytest.mark.parametrize(("stops", "heard_until_ms"), [(True, 1_230), (False, 1_240)])
def test_audio_that_a_client_drops_is_not_heard(stops: bool, heard_until_ms: int) -> None:
    keeper, answer = TruthKeeper("sess_1"), response()
    keeper.sent(ResponseCreated(answer), 0)
    ends = np.ones(4 * 480, np.bool_)
    for sent_ms in (1_200, 1_201):  # 40 ms in all, of which the last 10 are dropped
        keeper.sent(piece(answer, 0, ends=ends), sent_ms * MS)
    answer.status = ResponseStatus.CANCELLED
    truth = keeper.sent(ResponseEnded(answer), 1_230 * MS, stops=stops)
    assert truth is not None
    assert truth.stopped_ns == (1_230 * MS if stops else None)
    assert truth.heard_until_ns is not None
    assert 0 < heard_until_ms * MS - truth.heard_until_ns <= MS // 24 + 1


def test_audio_after_the_end_is_ignored() -> None:
    keeper, answer = TruthKeeper("sess_1"), response()
    keeper.sent(ResponseCreated(answer), 0)
    keeper.sent(ResponseEnded(answer), 1)
    assert keeper.sent(piece(answer, 0), 2) is None
    assert keeper.closed() == []


def test_a_reply_is_complete_when_its_queued_audio_is_sent() -> None:
    keeper, answer = TruthKeeper("sess_1", "turn-7"), response()
    keeper.sent(ResponseCreated(answer), 1_001 * MS)
    for _ in range(3):
        keeper.queued(piece(answer, onset_sample=480 + 240))
    answer.status = ResponseStatus.COMPLETED
    assert keeper.sent(ResponseEnded(answer), 1_110 * MS) is None
    assert keeper.played(piece(answer, onset_sample=480 + 240), 1_100 * MS) is None
    assert keeper.played(piece(answer, onset_sample=480 + 240), 1_120 * MS) is None
    truth = keeper.played(piece(answer, onset_sample=480 + 240), 1_140 * MS)
    assert truth is not None
    assert (truth.first_byte_ns, truth.voice_to_voice_ns) == (100 * MS, 130 * MS)
    assert (truth.ended_ns, truth.status, truth.label) == (1_110 * MS, "completed", "turn-7")
    assert keeper.played(piece(answer, 0), 1_160 * MS) is None
    assert keeper.closed() == []


def test_dropped_audio_completes_a_reply() -> None:
    keeper, answer = TruthKeeper("sess_1"), response()
    keeper.sent(ResponseCreated(answer), 1_001 * MS)
    keeper.queued(piece(answer, 0))
    keeper.queued(piece(answer, 0))
    assert keeper.played(piece(answer, 0), 1_100 * MS) is None
    assert keeper.dropped("resp_1", None) is None
    truth = keeper.sent(ResponseEnded(answer), 1_130 * MS)
    assert truth is not None
    assert truth.chunk_sent_ns == (1_100 * MS,)
    assert keeper.dropped("resp_1", None) is None


def test_a_truth_file_is_read_without_an_incomplete_line(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    file = TruthFile(path)
    keeper = TruthKeeper("sess_1")
    for _ in range(2):
        answer = response()
        keeper.sent(ResponseCreated(answer), 0)
        keeper.sent(piece(answer, 0), 7)
        truth = keeper.sent(ResponseEnded(answer), 9)
        assert truth is not None
        file.put(replace(truth, lag_ns=3))
    heard = keeper.utterance(UserUtterance(4, 5, "resp_1", VoiceEnd(8, "mark"), Reaction.STOPPED))
    assert (heard.utterance, heard.end_ns, heard.end_by, heard.reaction) == (4, 8, "mark", "stopped")
    file.put(heard)
    file.close()
    turns, utterances = read_truth(path)
    assert utterances == [heard]
    assert [turn.turn for turn in turns] == [0, 1]
    assert turns[1].chunk_sent_ns == (7,)
    assert turns[1].lag_ns == 3
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert (len(read_truth(path).replies), read_truth(path).utterances) == (2, [])
    assert not any(thread.name == "truth" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "line",
    [
        b"{\n",
        b"[]\n",
        b'{"schema":2,"session_id":"x"}\n',
        b'{"schema":3,"kind":"mood"}\n',
        b'{"schema":3,"kind":"turn","session_id":"x"}\n',
        b'{"schema":3,"kind":"utterance","session_id":"x"}\n',
    ],
)
def test_an_invalid_line_is_located(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "truth.jsonl"
    path.write_bytes(line)
    with pytest.raises(DataError, match=r"truth\.jsonl, line 1: expected"):
        read_truth(path)


def test_an_inaccessible_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write the true times"):
        TruthFile(tmp_path / "nowhere" / "truth.jsonl")
    with pytest.raises(DataError, match="cannot read the true times"):
        read_truth(tmp_path / "nowhere.jsonl")
