"""What the figures of a campaign's page mean."""

from __future__ import annotations

from live_eval.report.words import DEFINITIONS

__all__ = ["CAMPAIGN_DEFINITIONS"]

_SHARED = (
    "end of speech",
    "connect",
    "endpointing",
    "first byte",
    "voice to voice",
    "lead silence",
    "transcript",
)

CAMPAIGN_DEFINITIONS = (
    *((name, text) for name, text in DEFINITIONS if name in _SHARED),
    ("complete", "from the end of speech until the endpoint says that its reply is done"),
    ("start delay", "from when a session was due until it was dialled; open loop only"),
    (
        "from when due",
        "the latency with the start delay added. In a closed loop, and in an open loop that counts from "
        "dialling, sessions that wait while the endpoint stalls leave no trace in the percentiles "
        "(coordinated omission)",
    ),
    (
        "waterfall",
        "time waited for: first until the session is ready, then from the end of speech until the reply is "
        "complete; the user's own speech is not part of it. A step is what it adds beyond the steps "
        "before it, so the steps of a turn add up to its total, and the means to the mean total; medians do "
        "not add up",
    ),
    (
        "stalls",
        "playout underruns in a minute of reply audio, for jitter buffers of several depths",
    ),
    (
        "delivery rate",
        "the length of the reply's audio by the time in which it arrived: 1 is the pace of speech",
    ),
    (
        "endpointing cost",
        "voice to voice with the endpoint's detector minus voice to voice with manual turns, on the same "
        "recordings, paired by case: the mean of the differences, next to the medians of both sides",
    ),
    (
        "premature, early, flagged",
        "responses that were cut off because the user went on; turns answered before the user had ended; "
        "turns on which this machine was too late itself",
    ),
)
