"""Define the terms on a duplex campaign's page."""

from __future__ import annotations

from live_eval.analysis.statistics.intervals import LEVEL, MIN_CLUSTERS, RESAMPLES
from live_eval.analysis.turn_taking.outcomes import DURATIONS, YIELD_WITHIN_NS, Outcome
from live_eval.timing import AUDIBLE_DBFS
from live_eval.types import SpeechKind

__all__ = [
    "DUPLEX_DEFINITIONS",
    "DURATION_TITLES",
    "MARK_TITLES",
    "OUTCOME_WORDS",
    "SPEECH_TITLES",
    "spelt",
]

_WITHIN = f"{YIELD_WITHIN_NS / 1e9:g} s"

OUTCOME_WORDS = {
    Outcome.ANSWERED: "a reply was audible after the user had finished",
    Outcome.WAITED: "it stayed silent in every pause and answered after the user had finished",
    Outcome.PREMATURE: "it ended the turn, began a response or became audible before the user had finished",
    Outcome.NO_REPLY: "no reply was audible",
    Outcome.YIELDED: f"it stopped its reply; for an interruption, within {_WITHIN}",
    Outcome.FELL_SILENT: f"its reply ended within {_WITHIN}, without a report that it stopped",
    Outcome.KEPT_TALKING: "it continued its reply",
    Outcome.TRIGGERED: "it responded to audio that requires no answer",
    Outcome.IGNORED: "it did not respond to audio that requires no answer",
    Outcome.NATURAL_END: "the reply ended naturally while the user spoke; void, repeated",
    Outcome.NOT_OVERLAPPING: "no reply was audible when the user began to speak; void, repeated",
    Outcome.UNKNOWN: "it is unknown whether the reply stopped or paused, or the recording is damaged; void",
    Outcome.ANCHOR_MISSED: "the user did not begin to speak at the time of the condition; void, repeated",
    Outcome.FAILED: "the session failed",
}

DURATION_TITLES = {name: name.replace("_", " ") for name in DURATIONS}

MARK_TITLES = {
    "user_start": "user begins",
    "user_end": "user has finished",
    "reply_onset": "reply audible",
    "reply_silent": "reply silent",
    "provider_stop": "endpoint reports its stop",
    "new_reply": "new reply audible",
    "gave_up": "endpoint ended the turn",
    "trigger": "unprompted response",
}

SPEECH_TITLES = {
    SpeechKind.TURN: "User",
    SpeechKind.BACKCHANNEL: "User, backchannel",
    SpeechKind.VOCAL_TIC: "User, vocal tic",
    SpeechKind.NON_DIRECTED: "User, to another person",
    SpeechKind.NOISE: "Noise",
}

DUPLEX_DEFINITIONS = (
    *((name.replace("_", " "), f"from {what}") for name, what in DURATIONS.items() if "→" in what),
    *((name.replace("_", " "), what) for name, what in DURATIONS.items() if "→" not in what),
    *((outcome.value.replace("_", " "), words) for outcome, words in OUTCOME_WORDS.items()),
    (
        "void",
        "an inconclusive trial; counted, repeated at most twice, and excluded from rates",
    ),
    (
        "audible, heard",
        "the user as captured by a microphone; the endpoint as heard by a listener without a jitter buffer: "
        f"a 10 ms window above {AUDIBLE_DBFS:.0f} dBFS that lasts 30 ms",
    ),
    (
        "intervals",
        f"{100 * LEVEL:.0f} %, by a bootstrap of {RESAMPLES} resamples that draws your recordings, with all "
        "of their trials. For the bundled stimuli, it draws trials, so intervals apply to these only. There "
        f"is no interval for fewer than {MIN_CLUSTERS} recordings or trials",
    ),
)


def spelt(name: str) -> str:
    """Replace underscores in a name with spaces."""
    return name.replace("_", " ")
