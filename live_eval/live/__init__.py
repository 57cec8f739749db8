"""Run conversations with a person, using the terminal and a microphone or another program's audio.

`LiveConversation` needs no screen or device. `live_eval.live.sound_card` opens the machine's devices.
"""

from live_eval.live.conversation import LiveConversation
from live_eval.live.reply import AudioSink
from live_eval.live.updates import AudioSide, State, Update

__all__ = ["AudioSide", "AudioSink", "LiveConversation", "State", "Update"]
