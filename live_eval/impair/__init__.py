"""Impair the user's audio and network traffic reproducibly.

`parse` parses impairments; `live_eval.impair.paths` computes delivery times; `live_eval.impair.recording`
impairs recordings.
"""

from live_eval.impair.catalogue import PARAMETERS, ImpairedLayer, ImpairmentParameter
from live_eval.impair.language import BoundedValue, ValueUnit
from live_eval.impair.spec import DIRECTIONS, Impairment, parse

__all__ = [
    "DIRECTIONS",
    "PARAMETERS",
    "BoundedValue",
    "ImpairedLayer",
    "Impairment",
    "ImpairmentParameter",
    "ValueUnit",
    "parse",
]
