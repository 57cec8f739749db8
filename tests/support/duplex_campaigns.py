"""Synthetic duplex campaigns on disk with known audible intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from live_eval.audio import Audio, Codec, CodecName
from live_eval.recording import RunWriter, TurnRecord
from live_eval.recording.record import finish
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.timing import ResponseRecord, ResponseStatus, TurnTrace
from live_eval.types import Anchor, AnchorKind, Case, Failure, SpeechBoundaries, SpokenPart, Variant
from tests.support.records import tone

RATE_HZ = 24_000
_MS = 1_000_000
_T0_NS = 5_000 * _MS
_TAIL_MS = 200


def barge_in(
    trial_id: str,
    *,
    stop_ms: float | None,
    text: str = "The reply.",
    repeat: int = 0,
    asked_ms: int = 900,
) -> list[TurnRecord]:
    """Return a session: a reply at 1.5 s, the user over it from 2.4 s to 3.4 s, and a new reply at 4 s.

    The endpoint reports its stop and falls silent `stop_ms` after the user began; None for a reply that
    continues until 6 s. The script asks the user to begin `asked_ms` after the reply's
    onset; the user begins 900 ms after it.
    """
    until_ms = 6000 if stop_ms is None else 2400 + stop_ms
    first = _response("r1", 1500, until_ms - 1500, text, stopped_ms=None if stop_ms is None else until_ms)
    again = [] if stop_ms is None else [_response("r2", 4000, 800, "The new reply.")]
    anchor = Anchor(AnchorKind.REPLY_AUDIBLE, asked_ms * _MS)
    return [
        _turn(f"{trial_id}/1", trial_id, 0, [(0, 1000)], [first], repeat=repeat),
        _turn(f"{trial_id}/2", trial_id, 1, [(2400, 3400)], again, anchor=anchor, repeat=repeat),
    ]


def streamed(
    trial_id: str,
    user_ms: Sequence[tuple[float, float]],
    replies_ms: Sequence[Sequence[tuple[float, float]]],
    *,
    asked_ms: int = 900,
) -> list[TurnRecord]:
    """Return a session over continuous media: the utterances, and the responses detected after the first.

    Each response is a list of audible segments. The script asks for the second utterance `asked_ms` after the
    first sound of the first response.
    """
    responses = [_stream(f"reply_{number}", sounds) for number, sounds in enumerate(replies_ms, 1)]
    over = Anchor(AnchorKind.REPLY_AUDIBLE, asked_ms * _MS)
    return [
        _turn(
            f"{trial_id}/{index}",
            trial_id,
            index,
            [sounds],
            [] if index else responses,
            anchor=over if index else None,
            continuous=True,
        )
        for index, sounds in enumerate(user_ms)
    ]


def _stream(name: str, sounds_ms: Sequence[tuple[float, float]]) -> CapturedResponse:
    begin_ms, end_ms = sounds_ms[0][0], sounds_ms[-1][1]
    pcm = np.zeros(round((end_ms - begin_ms) * RATE_HZ / 1000), np.int16)
    for start, end in sounds_ms:
        at = round((start - begin_ms) * RATE_HZ / 1000)
        sound = tone(end - start, hz=330, rate_hz=RATE_HZ).int16()
        pcm[at : at + len(sound)] = sound
    record = ResponseRecord(
        response_id=name,
        created_ns=_T0_NS + round(begin_ms * _MS),
        done_ns=_T0_NS + round((end_ms + 1500) * _MS),
        status=ResponseStatus.COMPLETED,
        chunk_arrival_ns=np.asarray([_T0_NS + round(begin_ms * _MS)], np.int64),
    )
    return CapturedResponse(
        record=record, chunks=[pcm.astype("<i2").tobytes()], codec=Codec(CodecName.PCM16, RATE_HZ)
    )


def pause(trial_id: str, gap_ms: float, *, waits: bool) -> list[TurnRecord]:
    """Return an utterance with a gap, and a reply 500 ms after its end, or 300 ms into the gap."""
    end_ms = 1600 + gap_ms
    reply = _response("r1", end_ms + 500 if waits else 1100, 700, "Yes.")
    return [_turn(f"{trial_id}/1", trial_id, 0, [(0, 800), (800 + gap_ms, end_ms)], [reply])]


def question(trial_id: str) -> list[TurnRecord]:
    """Return an utterance, and a reply 500 ms after its end."""
    return [_turn(f"{trial_id}/1", trial_id, 0, [(0, 1000)], [_response("r1", 1500, 700, "Yes.")])]


def failed(trial_id: str, failure: Failure) -> list[TurnRecord]:
    """Return a session in which nothing was spoken."""
    capture = TurnCapture(trace=TurnTrace(dial_ns=0), wire=[], wall_ns=0, failure=failure)
    case = Case(
        case_id=f"{trial_id}/1",
        script_id=trial_id,
        variant=Variant.NEUTRAL,
        audio_path=Path("constructed.flac"),
        dialogue_id=trial_id,
    )
    return [finish(capture, case, None, repeat=0, attempt=1)]


def write_duplex_campaign(
    folder: Path,
    runs: Mapping[str, Sequence[tuple[str, str, Sequence[TurnRecord]]]],
    *,
    outages: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Path:
    """Write a campaign: for each run, the probe, the condition and the turns of each trial, and outages.

    The runs have these turn settings.
    """
    manifest = {
        "endpoint": {"name": "made up"},
        "outages": list(outages),
        "config": {"turns": dict(settings or {})},
    }
    folder.mkdir(parents=True)
    listed: dict[str, dict[str, Any]] = {}
    for run, trials in runs.items():
        with RunWriter.create(folder / run, manifest) as writer:
            for probe, condition, turns in trials:
                name = str(turns[0].case.dialogue_id)
                listed[name] = {"trial": name, "probe": probe, "condition": condition, "meant": []}
                for turn in turns:
                    writer.commit(turn)
            writer.end()
    campaign = {
        "schema": 1,
        "endpoint": "made up",
        "created": "2026-01-01T00:00:00+00:00",
        "complete": True,
        "seed": 0,
        "notes": [],
        "runs": {"clean": "clean", "impaired": "impaired" if "impaired" in runs else None},
        "impairment": "loss=5%" if "impaired" in runs else None,
        "trials": list(listed.values()),
        **facts,
    }
    (folder / "duplex.json").write_text(json.dumps(campaign), "utf-8")
    return folder


def _turn(
    case_id: str,
    trial_id: str,
    index: int,
    sounds_ms: Sequence[tuple[float, float]],
    responses: Sequence[CapturedResponse],
    *,
    anchor: Anchor | None = None,
    repeat: int = 0,
    continuous: bool = False,
) -> TurnRecord:
    """Return a turn whose recording begins with speech; times are relative to the start of the session."""
    begin_ms, end_ms = sounds_ms[0][0], sounds_ms[-1][1]
    t0_ns = _T0_NS + round(begin_ms * _MS)
    pcm = np.zeros(round((end_ms - begin_ms + _TAIL_MS) * RATE_HZ / 1000), np.float32)
    for start, end in sounds_ms:
        samples = tone(end - start, rate_hz=RATE_HZ).samples
        at = round((start - begin_ms) * RATE_HZ / 1000)
        pcm[at : at + len(samples)] = samples
    parts = [(round((start - begin_ms) * _MS), round((end - begin_ms) * _MS)) for start, end in sounds_ms]
    due_ns = t0_ns + 20 * _MS * np.arange(1, 1 + len(pcm) * 50 // RATE_HZ, dtype=np.int64)
    trace = TurnTrace(
        dial_ns=_T0_NS - 100 * _MS,
        ready_ns=_T0_NS - 50 * _MS,
        t0_ns=t0_ns,
        onset_ns=t0_ns,
        voice_end_ns=t0_ns + parts[-1][1],
        boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=parts[-1][1]),
        frame_deadline_ns=due_ns,
        frame_sent_ns=due_ns + 300_000,
        continuous=continuous,
    )
    case = Case(
        case_id=case_id,
        script_id=trial_id,
        variant=Variant.NEUTRAL,
        audio_path=Path("constructed.flac"),
        text="What the user says.",
        dialogue_id=trial_id,
        turn_index=index,
        anchor=anchor,
        parts=tuple(SpokenPart(*part) for part in parts),
    )
    capture = TurnCapture(trace=trace, wire=list(responses), wall_ns=_T0_NS)
    return finish(capture, case, Audio(pcm, RATE_HZ), repeat=repeat, attempt=1)


def _response(
    name: str, at_ms: float, length_ms: float, text: str, *, stopped_ms: float | None = None
) -> CapturedResponse:
    """Return a response that arrives in one burst; after a stop, half a second of it is never heard."""
    at_ns = _T0_NS + round(at_ms * _MS)
    whole_ms = length_ms if stopped_ms is None else length_ms + 500
    pcm = tone(whole_ms, hz=330, rate_hz=RATE_HZ).int16()
    stop_ns = None if stopped_ms is None else _T0_NS + round(stopped_ms * _MS)
    record = ResponseRecord(
        response_id=name,
        created_ns=at_ns - 10 * _MS,
        interrupted_ns=stop_ns,
        done_ns=stop_ns or at_ns,
        status=ResponseStatus.COMPLETED if stop_ns is None else ResponseStatus.CANCELLED,
        chunk_arrival_ns=np.asarray([at_ns], np.int64),
        text=text,
    )
    return CapturedResponse(
        record=record, chunks=[pcm.astype("<i2").tobytes()], codec=Codec(CodecName.PCM16, RATE_HZ)
    )
