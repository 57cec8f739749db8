"""Judges of the tasks other than conversation: transcription and multiple choice."""

from __future__ import annotations

from functools import partial

from live_eval.judges.specs.text import EMBEDDING_OPTION, EMBEDDING_PACKAGES, error_rates
from live_eval.judging import (
    JudgeKind,
    JudgeRole,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    Need,
    OutputSpec,
)
from live_eval.types import Task

__all__ = ["MCQ", "TRANSCRIPTION", "TRANSCRIPTION_SEMSIM"]


_column = partial(LeaderboardColumn, table=LeaderboardTable.UNDERSTANDING)
_percent = partial(OutputSpec, unit="%", low=0.0, high=100.0)

MCQ = JudgeSpec(
    name="mcq",
    version="8",
    title="accuracy on multiple-choice questions",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.mcq:Mcq",
    outputs=(
        _percent(
            name="accuracy",
            title="accuracy",
            columns=(
                _column(title="understanding", place=30, task=Task.UNDERSTANDING, heat_map=True),
                _column(title="reasoning", place=40, task=Task.REASONING, heat_map=True),
            ),
        ),
        _percent(name="parsed", title="replies that choose one option"),
        _percent(name="refused", title="replies that decline to choose", higher_is_better=False),
    ),
    needs=frozenset(),
    role=JudgeRole.MULTIPLE_CHOICE,
    default_place=80,
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.UNDERSTANDING, Task.REASONING}),
    source="Zhou et al.: EchoMind (ICLR 2026)",
)

_WER_COLUMN = _column(
    title="WER",
    place=10,
    task=Task.TRANSCRIPTION,
    note="WER after Whisper's English normaliser; the paper does not show its own.",
)

TRANSCRIPTION = JudgeSpec(
    name="transcription",
    version="2",
    title="word errors of what is said back against the script",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.word_error:WordErrorSaidBack",
    outputs=error_rates("word error rate of what was said back", _WER_COLUMN),
    needs=frozenset({Need.SCRIPT_TEXT}),
    role=JudgeRole.TRANSCRIPTION,
    default_place=70,
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.TRANSCRIPTION}),
    packages=("jiwer", "whisper_normalizer"),
    source="https://github.com/jitsi/jiwer; normaliser of Radford et al. (2022), appendix C",
    effort=0.9,
)

TRANSCRIPTION_SEMSIM = JudgeSpec(
    name="transcription_semsim",
    version="2",
    title="similarity of meaning of what is said back and the script",
    kind=JudgeKind.LOCAL,
    implementation="live_eval.judges.semsim:TranscriptionSemSim",
    outputs=(
        OutputSpec(
            name="",
            title="cosine of sentence embeddings, times 100",
            low=-100.0,
            high=100.0,
            columns=(_column(title="SemSim", place=20, task=Task.TRANSCRIPTION),),
        ),
    ),
    needs=frozenset({Need.SCRIPT_TEXT}),
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.TRANSCRIPTION}),
    options=(EMBEDDING_OPTION,),
    on_device=True,
    packages=EMBEDDING_PACKAGES,
    extra="torch",
    licence="Apache-2.0",
    source="Reimers, Gurevych: Sentence-BERT (EMNLP 2019); the benchmark's SemSim",
    effort=0.9,
)
