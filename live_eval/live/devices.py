"""List and select the machine's audio devices, using PortAudio (package ``sounddevice``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from live_eval.errors import UsageError
from live_eval.extras import install_command
from live_eval.live.updates import AudioSide

__all__ = ["WITHOUT_DEVICES", "AudioDevice", "find_device", "list_devices", "sounddevice"]

WITHOUT_DEVICES = (
    "live-eval run ENDPOINT, which needs no device. Or talk from a phone or another computer: "
    "live-eval studio --host 0.0.0.0"
)
"""Commands for a machine without audio devices."""

_INSTALL = (
    "PortAudio is missing. Install it: `apt-get install libportaudio2` (Debian, Ubuntu), "
    "`dnf install portaudio` (Fedora), `brew install portaudio` (macOS)"
)


@dataclass(frozen=True, slots=True)
class AudioDevice:
    """An audio device of this machine.

    Args:
        number: PortAudio's device number.
        host: Name of the sound system, such as ALSA.
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
        UsageError: The package or the library is missing; the message contains the install command.
    """
    try:
        import sounddevice as package
    except ModuleNotFoundError:
        raise UsageError(f"audio devices need the package sounddevice: {install_command('mic')}") from None
    except OSError:
        raise UsageError(_INSTALL) from None
    return package


def list_devices() -> list[AudioDevice]:
    """Return the machine's audio devices.

    Raises:
        UsageError: PortAudio is missing.
    """
    portaudio = sounddevice()
    hosts = portaudio.query_hostapis()
    default_input, default_output = portaudio.default.device
    return [
        AudioDevice(
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


def find_device(devices: list[AudioDevice], wanted: str | None, side: AudioSide) -> AudioDevice:
    """Return the device with this number or partial name; None selects the default device.

    Raises:
        UsageError: No device or more than one device matches; the message lists the candidates.
    """
    what = "microphone" if side is AudioSide.USER else "loudspeaker"
    usable = [each for each in devices if (each.inputs if side is AudioSide.USER else each.outputs)]
    if not usable:
        heard = side is AudioSide.USER and any(each.outputs for each in devices)
        listen = "live-eval live ENDPOINT --from sample (both voices are audible) or, " if heard else ""
        raise UsageError(
            f"no {what} found on this machine: connect one, or stream recordings: {listen}{WITHOUT_DEVICES}"
        )
    if wanted is None:
        default = [each for each in usable if (each.is_input if side is AudioSide.USER else each.is_output)]
        return (default or usable)[0]
    found = [each for each in usable if str(each.number) == wanted] or [
        each for each in usable if wanted.lower() in each.name.lower()
    ]
    exact = [each for each in found if each.name.lower() == wanted.lower()]
    if len(exact or found) == 1:
        return (exact or found)[0]
    named = ", ".join(f"{each.number} {each.name!r}" for each in found or usable)
    raise UsageError(f"{what} {wanted!r}: expected one of {named}")
