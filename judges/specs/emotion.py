"""Judges of vocal expression and prosody."""

from __future__ import annotations

from functools import partial
from typing import Any

from live_eval.judging import (
    JudgeKind,
    JudgeRole,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    Need,
    OptionSpec,
    OutputSpec,
)
from live_eval.weights import WeightsSpec, hub_files

__all__ = ["EMOALIGN", "EMOTION2VEC_WEIGHTS", "PROSODY"]

EMOTION2VEC_WEIGHTS = WeightsSpec(
    name="emotion2vec_plus_large",
    title="emotion2vec+ large",
    files=hub_files(
        "emotion2vec/emotion2vec_plus_large",
        "6c303ba987b86b93193de93e34bb2b077a6bedc4",
        {
            "model.pt": "be501a01f26fcdc7663a062dff86af839afbaef7c4de32f5e42d7e1ad2784da4",
            "config.yaml": "f4fa0eb82cc78bfebb43c56d68791afb01788085a18897d20999af7bc45d51d3",
            "tokens.txt": "866121e470057b847d7a50e9923509141fb2924392f53385a186482a1ec0fb7f",
            "configuration.json": "8b6a745213025c7d4565f9f074cfef1b5cd5ef76e38e2a8f7f8a3db271e735b2",
        },
    ),
    licence="the FunASR model licence",
    source="https://huggingface.co/emotion2vec/emotion2vec_plus_large",
    megabytes=1950,
)

_percent = partial(OutputSpec, unit="%", low=0.0, high=100.0)
_COLUMN = LeaderboardColumn(table=LeaderboardTable.RESPONSE_SOUND, title="EmoAlign", place=40, heat_map=True)

EMOALIGN = JudgeSpec(
    name="emoalign",
    version="2",
    title="EmoAlign: whether the reply's voice expresses the fitting emotion",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.emoalign:EmoAlign",
    outputs=(
        _percent(name="top1", title="emotion of the reply is the reference's", columns=(_COLUMN,)),
        _percent(name="mass", title="probability of the reference's emotion"),
        OutputSpec(
            name="cosine",
            title="cosine of both sides' emotion probabilities",
            low=0.0,
            high=1.0,
            optional=True,
        ),
    ),
    needs=frozenset({Need.REPLY_AUDIO}),
    role=JudgeRole.EMOTION,
    uses=frozenset({Need.REFERENCE_AUDIO, Need.CUE}),
    options=(
        OptionSpec(
            name="reference",
            help="what the reply is compared with: the reference reply's voice, or a table by cue",
            default="audio",
            choices=("audio", "cue"),
            spares={"cue": frozenset({Need.REFERENCE_AUDIO})},
        ),
        OptionSpec(
            name="weights",
            help="weights, or the folder of a model that funasr loads",
            default="emotion2vec_plus_large",
            weights=(EMOTION2VEC_WEIGHTS,),
        ),
    ),
    on_device=True,
    packages=("funasr", "torch", "torchaudio"),
    extra="emotion",
    licence=EMOTION2VEC_WEIGHTS.licence,
    source="Zhou et al.: EchoMind (ICLR 2026); Ma et al.: emotion2vec (ACL Findings 2024)",
    effort=1.0,
)


def _measure(name: str, title: str, unit: str, *, optional: bool = True, **bounds: Any) -> OutputSpec:
    return OutputSpec(name=name, title=title, unit=unit, higher_is_better=None, optional=optional, **bounds)


PROSODY = JudgeSpec(
    name="prosody",
    version="1",
    title="prosody of the reply, and its difference from the speaker's",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.prosody:Prosody",
    outputs=(
        _measure("pitch_hz", "median pitch", "Hz", low=40.0, high=1000.0, scale=(50.0, 800.0)),
        _measure("pitch_range", "range of the pitch, 5th to 95th percentile", "semitones", low=0.0),
        _measure("declination", "slope of the pitch over phrases", "semitones/s"),
        _measure("pitch_end", "pitch at the end against the median", "semitones"),
        _measure("level", "active speech level (ITU-T P.56)", "dBFS", high=6.0, optional=False),
        _measure(
            "level_range", "range of the level of voiced speech, 10th to 95th percentile", "dB", low=0.0
        ),
        _measure("rate", "syllables of the text per second of speech", "syllables/s", low=1.0, high=10.0),
        _measure("pauses", "share of pauses", "%", low=0.0, high=100.0),
        _measure("pause_s", "mean length of a pause", "s", low=0.0),
        _measure("pitch_range_step", "range of the pitch, reply less speaker", "semitones"),
        _measure("level_step", "active speech level, reply less speaker", "dB"),
        _measure("rate_step", "syllables per second of speech, reply less speaker", "syllables/s"),
        _measure("pauses_step", "share of pauses, reply less speaker", "points", low=-100.0, high=100.0),
    ),
    needs=frozenset({Need.REPLY_AUDIO}),
    role=JudgeRole.PROSODY,
    uses=frozenset({Need.SPEAKER_AUDIO, Need.REPLY_TEXT, Need.SCRIPT_TEXT}),
    packages=("onnxruntime", "scipy", "swift_f0"),
    licence="MIT",
    source="Nieradzik: SwiftF0 (2025); ITU-T P.56 (2011)",
    effort=0.07,
)
