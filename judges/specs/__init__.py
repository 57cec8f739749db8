"""Specify our judges. Importing this is cheap, since implementations are loaded on first use."""

from live_eval.judges.specs.models import ARENA, BENCHMARK_MODEL, RUBRIC, VES
from live_eval.judges.specs.sound import DISTILLMOS, DNSMOS, EMOALIGN, NISQA, PROSODY, UTMOS
from live_eval.judges.specs.text import (
    BENCHMARK_RULES,
    BERTSCORE,
    BLEU,
    MCQ,
    METEOR,
    ROUGE_L,
    SEMSIM,
    TRANSCRIPTION,
    TRANSCRIPTION_SEMSIM,
    WER_HEARD,
    WER_SPOKEN,
)

__all__ = [
    "ARENA",
    "BENCHMARK_MODEL",
    "BENCHMARK_RULES",
    "BERTSCORE",
    "BLEU",
    "DISTILLMOS",
    "DNSMOS",
    "EMOALIGN",
    "MCQ",
    "METEOR",
    "NISQA",
    "PROSODY",
    "ROUGE_L",
    "RUBRIC",
    "SEMSIM",
    "TRANSCRIPTION",
    "TRANSCRIPTION_SEMSIM",
    "UTMOS",
    "VES",
    "WER_HEARD",
    "WER_SPOKEN",
]
