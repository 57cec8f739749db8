"""Sessions with endpoints: somebody speaks at the pace of speech, and what comes back is captured."""

from live_eval.session.playback import PAUSE_NS, Playback, Utterance
from live_eval.session.session import Session, logged

__all__ = [
    "PAUSE_NS",
    "Playback",
    "Session",
    "Utterance",
    "logged",
]
