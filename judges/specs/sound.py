"""Specify the audio judges: quality, vocal expression and prosody of the reply."""

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
from live_eval.weights import WeightsFile, WeightsSpec, hub_files

__all__ = [
    "DISTILLMOS",
    "DNSMOS",
    "EMOALIGN",
    "EMOTION2VEC_WEIGHTS",
    "NISQA",
    "NISQA_WEIGHTS",
    "PROSODY",
    "UTMOS",
    "UTMOS_WEIGHTS",
]

_local = partial(JudgeSpec, kind=JudgeKind.LOCAL, needs=frozenset({Need.REPLY_AUDIO}))
_column = partial(LeaderboardColumn, table=LeaderboardTable.RESPONSE_SOUND)
_mos = partial(OutputSpec, unit="MOS", scale=(1.0, 5.0))
_dnsmos = partial(_mos, low=0.0, high=5.0)
# The network does not clip its outputs, but the last layer's normalised input and its weights limit the
# widest of the five to -6.28 to 6.18.
_nisqa = partial(_mos, low=-6.3, high=6.2)

_P808_COLUMN = _column(
    title="DNSMOS",
    place=20,
    note="The paper does not specify which DNSMOS value it reports; P.808 fits its values.",
)

DNSMOS = _local(
    name="dnsmos",
    version="1",
    title="DNSMOS: audio quality of the reply, P.835 and P.808",
    implementation="live_eval.judges.dnsmos:Dnsmos",
    outputs=(
        _dnsmos(name="ovrl", title="overall quality (P.835)"),
        _dnsmos(name="sig", title="quality of the speech (P.835)"),
        _dnsmos(name="bak", title="quality of the background (P.835)"),
        _dnsmos(name="p808", title="overall quality (P.808)", columns=(_P808_COLUMN,)),
    ),
    default_place=10,
    packages=("onnx", "onnxruntime", "speechmos"),
    licence="MIT",
    source="Reddy, Gopal, Cutler: DNSMOS (ICASSP 2021) and DNSMOS P.835 (ICASSP 2022)",
    effort=0.6,
)

DISTILLMOS = _local(
    name="distillmos",
    version="1",
    title="DistillMOS: audio quality of the reply",
    implementation="live_eval.judges.distillmos:DistillMos",
    # The last operation of the network is 1 + 4 sigmoid(x).
    outputs=(_mos(name="", title="overall quality (DistillMOS)", low=1.0, high=5.0),),
    default_place=20,
    on_device=True,
    packages=("distillmos", "torch", "torchaudio"),
    extra="torch",
    licence="MIT",
    source="Stahl, Gamper: Distillation and Pruning for Scalable Speech Quality Assessment (ICASSP 2025)",
    effort=0.8,
)

NISQA_WEIGHTS = WeightsSpec(
    name="nisqa",
    title="NISQA v2.0, overall quality and four dimensions",
    files=(
        WeightsFile(
            name="nisqa.tar",
            url="https://github.com/gabrielmittag/NISQA/raw/refs/heads/master/weights/nisqa.tar",
            sha256="7ec4cf937514dd3f8860b21e66fabd8ca87a168572675ef8d979c4c4ad2e805c",
        ),
    ),
    licence="CC BY-NC-SA 4.0 (not for commercial use)",
    source="https://github.com/gabrielmittag/NISQA",
    megabytes=1,
)

NISQA = _local(
    name="nisqa",
    version="1",
    title="NISQA v2.0: audio quality of the reply, and four dimensions of it",
    implementation="live_eval.judges.nisqa:Nisqa",
    outputs=(
        _nisqa(name="mos", title="overall quality (NISQA)", columns=(_column(title="NISQA", place=10),)),
        _nisqa(name="noisiness", title="freedom from noise (NISQA)"),
        _nisqa(name="discontinuity", title="freedom from interruptions (NISQA)"),
        _nisqa(name="coloration", title="freedom from coloration (NISQA)"),
        _nisqa(name="loudness", title="appropriateness of loudness (NISQA)"),
    ),
    options=(
        OptionSpec(
            name="weights",
            help="weights, or the path of nisqa.tar",
            default="nisqa",
            weights=(NISQA_WEIGHTS,),
        ),
    ),
    on_device=True,
    packages=("librosa", "torch", "torchmetrics"),
    extra="torch",
    licence=NISQA_WEIGHTS.licence,
    source="Mittag et al.: NISQA (Interspeech 2021)",
    effort=0.1,
)

UTMOS_WEIGHTS = WeightsSpec(
    name="utmos22-strong",
    title="UTMOS22 strong learner",
    files=hub_files(
        "Blinorot/UTMOS-PyTorch",
        "4f2447e519df3b88567b45583d3500006729502b",
        {"utmos_state_dict.pt": "21b98001a7d5164d562a40d76aff80ae996deeabe4473c3a6786d1c591c2cc47"},
    ),
    licence="MIT",
    source="https://huggingface.co/Blinorot/UTMOS-PyTorch",
    megabytes=413,
)

UTMOS = _local(
    name="utmos",
    version="2",
    title="UTMOS22 strong: naturalness of the reply's audio",
    implementation="live_eval.judges.utmos:Utmos",
    # The regressor is not clipped: an adversarial recording can score just below 1, a good one just above 5.
    outputs=(
        _mos(
            name="",
            title="naturalness (UTMOS22 strong)",
            low=-1.0,
            high=7.0,
            columns=(_column(title="UTMOS", place=30, note="The paper does not publish UTMOS."),),
        ),
    ),
    options=(
        OptionSpec(
            name="weights",
            help="weights, or the path of a state dict",
            default="utmos22-strong",
            weights=(UTMOS_WEIGHTS,),
        ),
    ),
    on_device=True,
    packages=("torch", "utmos_pytorch"),
    extra="torch",
    licence=UTMOS_WEIGHTS.licence,
    source="Saeki et al.: UTMOS (Interspeech 2022)",
    effort=0.5,
)

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

EMOALIGN = _local(
    name="emoalign",
    version="2",
    title="EmoAlign: whether the reply's voice expresses the fitting emotion",
    implementation="live_eval.judges.emoalign:EmoAlign",
    outputs=(
        _percent(
            name="top1",
            title="emotion of the reply matches the reference's",
            columns=(_column(title="EmoAlign", place=40, heat_map=True),),
        ),
        _percent(name="mass", title="probability of the reference's emotion"),
        OutputSpec(
            name="cosine",
            title="cosine similarity of the two sides' emotion probabilities",
            low=0.0,
            high=1.0,
            optional=True,
        ),
    ),
    classes={"speaker": "emotion of the user's voice", "reply": "emotion of the reply"},
    role=JudgeRole.EMOTION,
    uses=frozenset({Need.REFERENCE_AUDIO, Need.SPEAKER_AUDIO, Need.CUE}),
    options=(
        OptionSpec(
            name="reference",
            help="what the reply is compared with: the reference reply's voice, a table by cue, or the "
            "user's voice",
            default="audio",
            in_conversation="speaker",
            choices=("audio", "cue", "speaker"),
            spares={
                "audio": frozenset({Need.SPEAKER_AUDIO}),
                "cue": frozenset({Need.REFERENCE_AUDIO, Need.SPEAKER_AUDIO}),
                "speaker": frozenset({Need.REFERENCE_AUDIO}),
            },
        ),
        OptionSpec(
            name="weights",
            help="weights, or the folder of a model that funasr can load",
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


PROSODY = _local(
    name="prosody",
    version="1",
    title="prosody of the reply, and its difference from the speaker's",
    implementation="live_eval.judges.prosody:Prosody",
    outputs=(
        _measure("pitch_hz", "median pitch", "Hz", low=40.0, high=1000.0, scale=(50.0, 800.0)),
        _measure("pitch_range", "pitch range, 5th to 95th percentile", "semitones", low=0.0),
        _measure("declination", "slope of the pitch over phrases", "semitones/s"),
        _measure("pitch_end", "pitch at the end relative to the median", "semitones"),
        _measure("level", "active speech level (ITU-T P.56)", "dBFS", high=6.0, optional=False),
        _measure(
            "level_range", "range of the level of voiced speech, 10th to 95th percentile", "dB", low=0.0
        ),
        _measure("rate", "syllables of the text per second of speech", "syllables/s", low=1.0, high=10.0),
        _measure("pauses", "share of pauses", "%", low=0.0, high=100.0),
        _measure("pause_s", "mean length of a pause", "s", low=0.0),
        _measure("pitch_range_step", "pitch range, reply minus speaker", "semitones"),
        _measure("level_step", "active speech level, reply minus speaker", "dB"),
        _measure("rate_step", "syllables per second of speech, reply minus speaker", "syllables/s"),
        _measure("pauses_step", "share of pauses, reply minus speaker", "points", low=-100.0, high=100.0),
    ),
    role=JudgeRole.PROSODY,
    uses=frozenset({Need.SPEAKER_AUDIO, Need.REPLY_TEXT, Need.SCRIPT_TEXT}),
    packages=("onnxruntime", "scipy", "swift_f0"),
    licence="MIT",
    source="Nieradzik: SwiftF0 (2025); ITU-T P.56 (2011)",
    effort=0.07,
)
