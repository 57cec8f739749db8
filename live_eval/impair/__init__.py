"""Damage on purpose: to the user's sound, and to the traffic of WebSocket and WebRTC connections.

Reproducible by seed. `parse` reads what a user writes; `live_eval.impair.packets` and
`live_eval.impair.streams` decide when traffic is delivered, `live_eval.impair.recording` damages a recording.
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
