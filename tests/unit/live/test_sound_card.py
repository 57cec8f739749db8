"""Audio that a sound card counts as lost."""

from types import SimpleNamespace

import numpy as np
import pytest

from live_eval.errors import UsageError
from live_eval.live import sound_card
from live_eval.live.devices import AudioDevice
from live_eval.live.sound_card import SoundCard
from live_eval.live.updates import AudioSide

RATE = 48_000
BLOCK = RATE // 100
FINE = SimpleNamespace(input_overflow=False, output_underflow=False)
LATE = SimpleNamespace(input_overflow=True, output_underflow=True)
DEVICE = AudioDevice(number=0, name="virtual", host="", inputs=1, outputs=1, is_input=True, is_output=True)


def captured(card: SoundCard, count: int, status: SimpleNamespace = FINE) -> None:
    for _ in range(count):
        card._captured(np.zeros((BLOCK, 1), np.int16), BLOCK, None, status)


def played(card: SoundCard, count: int = 1, status: SimpleNamespace = FINE) -> None:
    for _ in range(count):
        card._requested(np.zeros((BLOCK, 2), np.int16), BLOCK, None, status)


def test_unread_audio_before_the_conversation_does_not_count_as_lost() -> None:
    card = SoundCard(DEVICE, DEVICE, RATE)
    captured(card, 1_000)
    played(card)
    card.begin()
    assert (card.input_xruns, list(card.blocks())) == (0, [])
    captured(card, 299)
    captured(card, 1, LATE)
    assert card.input_xruns == 1
    captured(card, 2)
    assert card.input_xruns == 3  # the oldest of 300 blocks were dropped
    assert len(list(card.blocks())) == 300


def test_an_underflow_is_a_loss_only_while_audio_plays() -> None:
    card = SoundCard(None, DEVICE, RATE)
    played(card, 5, LATE)
    assert card.output_xruns == 0
    card.play(AudioSide.REPLY, np.full(RATE, 1_000, np.int16), RATE)
    played(card, 50)
    played(card, 1, LATE)
    assert card.output_xruns == 1
    played(card, 100)
    played(card, 5, LATE)
    assert card.output_xruns == 1


class Unplugged:
    """PortAudio on a machine whose microphone was removed but is still listed."""

    PortAudioError = OSError

    def check_output_settings(self, *_: object, **__: object) -> None:
        pass

    def check_input_settings(self, *_: object, **__: object) -> None:
        raise OSError


def test_a_microphone_that_cannot_be_opened_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_card, "sounddevice", Unplugged)
    monkeypatch.setattr(sound_card, "list_devices", lambda: [DEVICE])
    problem = r"the microphone 'virtual' cannot be .*--list-devices.*live-eval run ENDPOINT"
    with pytest.raises(UsageError, match=problem), sound_card.open_sound_card():
        pytest.fail("expected an error")
