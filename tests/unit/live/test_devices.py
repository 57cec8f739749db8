"""Choosing an audio device."""

import sys

import pytest

from live_eval.errors import UsageError
from live_eval.live.devices import AudioDevice, find_device, list_devices
from live_eval.live.updates import AudioSide

DEVICES = [
    AudioDevice(0, "HDMI", "ALSA", 0, 2, False, False),
    AudioDevice(1, "USB Headset", "ALSA", 1, 2, False, False),
    AudioDevice(2, "USB Headset Pro", "ALSA", 1, 2, True, True),
]


@pytest.mark.parametrize(
    ("wanted", "number"), [(None, 2), ("1", 1), ("usb headset", 1), ("pro", 2), ("USB Headset Pro", 2)]
)
def test_a_device_is_found_by_number_or_name(wanted: str | None, number: int) -> None:
    assert find_device(DEVICES, wanted, AudioSide.USER).number == number


@pytest.mark.parametrize(
    ("wanted", "side", "message"),
    [
        ("usb", AudioSide.USER, "microphone 'usb': expected one of 1 'USB Headset', 2 'USB Headset Pro'"),
        ("hdmi", AudioSide.USER, "microphone 'hdmi': expected one of 1 "),
        ("9", AudioSide.REPLY, "loudspeaker '9': expected one of 0 'HDMI'"),
    ],
)
def test_a_name_that_matches_no_device_or_several_is_refused(
    wanted: str, side: AudioSide, message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        find_device(DEVICES, wanted, side)
    assert str(refused.value).startswith(message)


def test_a_machine_without_devices_is_reported() -> None:
    with pytest.raises(
        UsageError, match=r"no microphone found on this machine.*--from sample.*live-eval run"
    ):
        find_device([each for each in DEVICES if not each.inputs], None, AudioSide.USER)
    with pytest.raises(UsageError, match=r"no microphone found on this machine[^-]*live-eval run"):
        find_device([], None, AudioSide.USER)
    with pytest.raises(UsageError, match=r"no loudspeaker found on this machine.*live-eval run"):
        find_device([], None, AudioSide.REPLY)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(UsageError, match=r"pip install .*\[mic\]"):
        list_devices()
