"""What the names on the page of a duplex campaign mean."""

from __future__ import annotations

from live_eval.analysis.statistics.intervals import LEVEL, MIN_CLUSTERS, RESAMPLES
from live_eval.campaigns.duplex.outcomes import DURATIONS, YIELD_WITHIN_NS, Outcome
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
    Outcome.ANSWERED: "a reply was heard once the user had finished",
    Outcome.WAITED: "it stayed silent through every pause, and answered once the user had finished",
    Outcome.PREMATURE: "it ended the turn, began a response or was heard before the user had finished",
    Outcome.NO_REPLY: "nothing was heard",
    Outcome.YIELDED: f"it stopped its reply; for an interruption, within {_WITHIN}",
    Outcome.FELL_SILENT: f"its reply ended within {_WITHIN}; it never says whether it stops or has finished",
    Outcome.KEPT_TALKING: "its reply went on",
    Outcome.TRIGGERED: "it responded to what was not to be answered",
    Outcome.IGNORED: "it did not respond to what was not to be answered",
    Outcome.NATURAL_END: "the reply ended by itself while the user spoke; void, played again",
    Outcome.NOT_OVERLAPPING: "no reply sounded when the user began to speak; void, played again",
    Outcome.UNKNOWN: "whether the reply stopped or paused cannot be known; void, played again",
    Outcome.ANCHOR_MISSED: "the user did not begin to speak when the condition says; void, played again",
    Outcome.FAILED: "the session failed",
}

DURATION_TITLES = {name: name.replace("_", " ") for name in DURATIONS}

MARK_TITLES = {
    "user_start": "user begins",
    "user_end": "user has finished",
    "reply_onset": "reply audible",
    "reply_silent": "reply silent",
    "provider_stop": "endpoint says it stops",
    "new_reply": "new reply audible",
    "gave_up": "endpoint took it for the end",
    "trigger": "response nothing called for",
}

SPEECH_TITLES = {
    SpeechKind.TURN: "User",
    SpeechKind.BACKCHANNEL: "User, backchannel",
    SpeechKind.VOCAL_TIC: "User, vocal tic",
    SpeechKind.NON_DIRECTED: "User, to somebody else",
    SpeechKind.NOISE: "Noise",
}

DUPLEX_DEFINITIONS = (
    *((name.replace("_", " "), f"from {what}") for name, what in DURATIONS.items() if "→" in what),
    *((name.replace("_", " "), what) for name, what in DURATIONS.items() if "→" not in what),
    *((outcome.value.replace("_", " "), words) for outcome, words in OUTCOME_WORDS.items()),
    (
        "void",
        "a trial that shows nothing; it is counted, played again at most twice, and in no rate",
    ),
    (
        "audible, heard",
        "the user as a microphone hears it; the endpoint as a listener with no jitter buffer does: 10 ms "
        f"above {AUDIBLE_DBFS:.0f} dBFS that last 30 ms",
    ),
    (
        "intervals",
        f"{100 * LEVEL:.0f} % by a bootstrap of {RESAMPLES} resamples that draws trials, so they speak about "
        f"these stimuli. None is given for fewer than {MIN_CLUSTERS} trials",
    ),
)


def spelt(name: str) -> str:
    """Return a name in words."""
    return name.replace("_", " ")
