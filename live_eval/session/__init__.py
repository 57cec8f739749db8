"""Run sessions with endpoints: stream the user's audio in real time, and capture the replies."""

from live_eval.session.playback import PAUSE_NS, Playback, Utterance
from live_eval.session.session import Session, logged

__all__ = [
    "PAUSE_NS",
    "Playback",
    "Session",
    "Utterance",
    "logged",
]
