"""Conversations with a person: in the terminal with a microphone, or through another program's sound.

`LiveConversation` has no screen and no device; `live_eval.live.devices` has the sound card.
"""

from live_eval.live.conversation import LiveConversation
from live_eval.live.reply import AudioSink
from live_eval.live.updates import SoundSide, State, Update

__all__ = ["AudioSink", "LiveConversation", "SoundSide", "State", "Update"]
