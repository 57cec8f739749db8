"""Data sets: EchoMind and EchoMind-Human, anyone's manifest, a folder of recordings, the bundled sample."""

from live_eval.data.check import DataReport, FileCheck, check
from live_eval.data.dataset import DataKind, DataOptions, DataSet, select
from live_eval.data.layout import SAMPLE, SAMPLE_DIALOGUES, load, locate, sample_path
from live_eval.data.questions import QUESTION_TYPES
from live_eval.data.taxonomy import ATTRIBUTES, FINE_DIMENSIONS, NEUTRAL, Attribute, cue_of

__all__ = [
    "ATTRIBUTES",
    "FINE_DIMENSIONS",
    "NEUTRAL",
    "QUESTION_TYPES",
    "SAMPLE",
    "SAMPLE_DIALOGUES",
    "Attribute",
    "DataKind",
    "DataOptions",
    "DataReport",
    "DataSet",
    "FileCheck",
    "check",
    "cue_of",
    "load",
    "locate",
    "sample_path",
    "select",
]
