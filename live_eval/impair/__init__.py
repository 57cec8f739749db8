"""Deliberate, reproducible damage to the user's audio and to the traffic of connections.

`parse` reads impairments; `live_eval.impair.paths` computes when traffic is delivered;
`live_eval.impair.recording` damages a recording.
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
