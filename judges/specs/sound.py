"""Judges of how good the reply sounds."""

from __future__ import annotations

from functools import partial

from live_eval.judging import (
    JudgeKind,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    Need,
    OptionSpec,
    OutputSpec,
)
from live_eval.weights import WeightsFile, WeightsSpec, hub_files

__all__ = ["DISTILLMOS", "DNSMOS", "NISQA", "NISQA_WEIGHTS", "UTMOS", "UTMOS_WEIGHTS"]


_column = partial(LeaderboardColumn, table=LeaderboardTable.RESPONSE_SOUND)
_mos = partial(OutputSpec, unit="MOS", scale=(1.0, 5.0))
_dnsmos = partial(_mos, low=0.0, high=5.0)
# The network does not clip. Its last layer's input is normalised, which with the layer's weights bounds the
# widest of the five outputs to -6.28 to 6.18.
_nisqa = partial(_mos, low=-6.3, high=6.2)

_P808_COLUMN = _column(
    title="DNSMOS",
    place=20,
    note="The paper's table does not say which of DNSMOS's numbers it shows; P.808 fits its values.",
)

DNSMOS = JudgeSpec(
    name="dnsmos",
    version="1",
    title="DNSMOS: quality of the reply's sound, P.835 and P.808",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.dnsmos:Dnsmos",
    outputs=(
        _dnsmos(name="ovrl", title="overall quality (P.835)"),
        _dnsmos(name="sig", title="quality of the speech (P.835)"),
        _dnsmos(name="bak", title="quality of the background (P.835)"),
        _dnsmos(name="p808", title="overall quality (P.808)", columns=(_P808_COLUMN,)),
    ),
    default_place=10,
    needs=frozenset({Need.REPLY_AUDIO}),
    packages=("onnx", "onnxruntime", "speechmos"),
    licence="MIT",
    source="Reddy, Gopal, Cutler: DNSMOS (ICASSP 2021) and DNSMOS P.835 (ICASSP 2022)",
    effort=0.6,
)

DISTILLMOS = JudgeSpec(
    name="distillmos",
    version="1",
    title="DistillMOS: quality of the reply's sound",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.distillmos:DistillMos",
    # The network ends in 1 + 4 sigmoid(x).
    outputs=(_mos(name="", title="overall quality (DistillMOS)", low=1.0, high=5.0),),
    default_place=20,
    needs=frozenset({Need.REPLY_AUDIO}),
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

NISQA = JudgeSpec(
    name="nisqa",
    version="1",
    title="NISQA v2.0: quality of the reply's sound and what it is made of",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.nisqa:Nisqa",
    outputs=(
        _nisqa(name="mos", title="overall quality (NISQA)", columns=(_column(title="NISQA", place=10),)),
        _nisqa(name="noisiness", title="freedom from noise (NISQA)"),
        _nisqa(name="discontinuity", title="freedom from interruptions (NISQA)"),
        _nisqa(name="coloration", title="freedom from coloration (NISQA)"),
        _nisqa(name="loudness", title="fitness of loudness (NISQA)"),
    ),
    needs=frozenset({Need.REPLY_AUDIO}),
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

UTMOS = JudgeSpec(
    name="utmos",
    version="2",
    title="UTMOS22 strong: naturalness of the reply's sound",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.utmos:Utmos",
    # A regressor that nothing clips: a hostile recording can come out a little below 1, a good one a little
    # above 5.
    outputs=(
        _mos(
            name="",
            title="naturalness (UTMOS22 strong)",
            low=-1.0,
            high=7.0,
            columns=(_column(title="UTMOS", place=30, note="The paper publishes no UTMOS."),),
        ),
    ),
    needs=frozenset({Need.REPLY_AUDIO}),
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
