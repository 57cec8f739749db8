"""The machine's sound devices, through PortAudio (package ``sounddevice``), and which of them is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from live_eval.errors import UsageError
from live_eval.live.updates import SoundSide

__all__ = ["SoundDevice", "find_device", "list_devices", "sounddevice"]

_INSTALL = (
    "PortAudio is missing. Install it: `apt-get install libportaudio2` (Debian, Ubuntu), "
    "`dnf install portaudio` (Fedora), `brew install portaudio` (macOS)"
)


@dataclass(frozen=True, slots=True)
class SoundDevice:
    """A device of the machine.

    Args:
        number: PortAudio's number for it.
        name: Its name.
        host: The sound system that offers it.
        inputs: Its input channels; 0 if it has no microphone.
        outputs: Its output channels; 0 if it has no loudspeaker.
        is_input: Whether it is the default microphone.
        is_output: Whether it is the default loudspeaker.
    """

    number: int
    name: str
    host: str
    inputs: int
    outputs: int
    is_input: bool
    is_output: bool


def sounddevice() -> Any:
    """Import sounddevice, which loads PortAudio.

    Raises:
        UsageError: The package or the library is missing; says how to install it.
    """
    try:
        import sounddevice as package
    except ModuleNotFoundError:
        raise UsageError("the microphone needs sounddevice: pip install 'live-eval[mic]'") from None
    except OSError:
        raise UsageError(_INSTALL) from None
    return package


def list_devices() -> list[SoundDevice]:
    """Return the machine's sound devices.

    Raises:
        UsageError: PortAudio is missing.
    """
    portaudio = sounddevice()
    hosts = portaudio.query_hostapis()
    default_input, default_output = portaudio.default.device
    return [
        SoundDevice(
            number=number,
            name=device["name"],
            host=hosts[device["hostapi"]]["name"],
            inputs=device["max_input_channels"],
            outputs=device["max_output_channels"],
            is_input=number == default_input,
            is_output=number == default_output,
        )
        for number, device in enumerate(portaudio.query_devices())
    ]


def find_device(devices: list[SoundDevice], wanted: str | None, side: SoundSide) -> SoundDevice:
    """Return a device by its number or a part of its name; the default one for None.

    Raises:
        UsageError: There is no such device, or several; the message lists those that there are.
    """
    what = "microphone" if side is SoundSide.USER else "loudspeaker"
    usable = [each for each in devices if (each.inputs if side is SoundSide.USER else each.outputs)]
    if not usable:
        raise UsageError(f"no {what}: this machine has no sound device that can be used as one")
    if wanted is None:
        default = [each for each in usable if (each.is_input if side is SoundSide.USER else each.is_output)]
        return (default or usable)[0]
    found = [each for each in usable if str(each.number) == wanted] or [
        each for each in usable if wanted.lower() in each.name.lower()
    ]
    exact = [each for each in found if each.name.lower() == wanted.lower()]
    if len(exact or found) == 1:
        return (exact or found)[0]
    named = ", ".join(f"{each.number} {each.name!r}" for each in found or usable)
    raise UsageError(f"{what} {wanted!r}: expected one of {named}")
