"""List the impairments: affected layers, parameters with units and bounds, and underlying models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from live_eval.impair.language import BoundedValue, ValueUnit

__all__ = ["PARAMETERS", "QUEUE_MS", "ImpairedLayer", "ImpairmentParameter"]


class ImpairedLayer(StrEnum):
    """The target of an impairment."""

    AUDIO = "audio"
    """The user's audio, before it is sent."""
    WEBSOCKET = "websocket"
    """The byte stream of a WebSocket connection."""
    HTTP = "http"
    """The byte stream of HTTP requests and responses."""
    HTTP2 = "http2"
    """The byte stream of an HTTP/2 connection, which no impairment affects."""
    WEBRTC = "webrtc"
    """The datagrams of a WebRTC connection."""
    SIGNALLING = "signalling"
    """The byte stream of the HTTP requests that set up a WebRTC connection."""


@dataclass(frozen=True, slots=True)
class ImpairmentParameter:
    """A parameter of an impairment, written ``NAME=VALUE``.

    Args:
        layers: Affected layers; network parameters may apply to several transports.
        value: Value type. Its default, if any, applies when the parameter in `needs` is given.
        needs: Another parameter that this one requires; empty if none.
        excludes: Conflicting parameters.
        source: Underlying model or standard.
    """

    name: str
    layers: tuple[ImpairedLayer, ...]
    value: BoundedValue
    help: str
    needs: str = ""
    excludes: tuple[str, ...] = ()
    source: str = ""

    @property
    def on_network(self) -> bool:
        """Whether the parameter impairs traffic; each direction may then have a separate value."""
        return ImpairedLayer.AUDIO not in self.layers


QUEUE_MS = 200.0
"""Default of `queue`."""
_AUDIO = (ImpairedLayer.AUDIO,)
_RTC = (ImpairedLayer.WEBRTC,)
_STREAM = (ImpairedLayer.WEBSOCKET, ImpairedLayer.HTTP)
_ANY_STREAM = (*_STREAM, ImpairedLayer.SIGNALLING)
_ANY = (*_RTC, *_ANY_STREAM)
_GILBERT = "Gilbert 1960, parametrised as in WebRTC's SimulatedNetwork"
_U = ValueUnit

# fmt: off
_ALL = (
    ImpairmentParameter("loss", _RTC, BoundedValue(_U.PERCENT, 0, 100),
        "share of packets lost, independently or in bursts (see `burst`)",
        source=_GILBERT),
    ImpairmentParameter("burst", _RTC, BoundedValue(_U.PACKETS, 1, 1_000),
        "mean number of consecutive lost packets", needs="loss", source=_GILBERT),
    ImpairmentParameter("delay", _ANY, BoundedValue(_U.MILLISECONDS, 0, 10_000),
        "delay of every packet, in each direction"),
    ImpairmentParameter("jitter", _ANY, BoundedValue(_U.MILLISECONDS, 0, 1_000),
        "standard deviation of the delay: normal, independent, never negative; packets are not reordered",
        source="as in WebRTC's SimulatedNetwork without reordering"),
    ImpairmentParameter("reorder", _RTC, BoundedValue(_U.PERCENT, 0, 100),
        "share of packets that later packets overtake",
        source="RFC 4737 defines reordering"),
    ImpairmentParameter("reorder_by", _RTC, BoundedValue(_U.MILLISECONDS, 1, 1_000, default="30ms"),
        "delay of reordered packets", needs="reorder"),
    ImpairmentParameter("duplicate", _RTC, BoundedValue(_U.PERCENT, 0, 100),
        "share of duplicated packets", source="as in Linux's netem"),
    ImpairmentParameter("bandwidth", _ANY, BoundedValue(_U.KILOBITS, 1, 1_000_000),
        "capacity of the link in each direction; over WebRTC, 28 bytes of IPv4 and UDP headers are added "
        "to each packet, otherwise only the bytes of the stream count"),
    ImpairmentParameter("queue", _RTC, BoundedValue(_U.MILLISECONDS, 0, 10_000, default=f"{QUEUE_MS:g}ms"),
        "maximum wait for the link; packets that would wait longer are lost (drop-tail)", needs="bandwidth"),
    ImpairmentParameter("stall", _STREAM, BoundedValue(_U.MILLISECONDS, 0, 60_000),
        "length of periods without traffic, as while TCP repairs a loss", needs="every"),
    ImpairmentParameter("every", _STREAM, BoundedValue(_U.MILLISECONDS, 1, 600_000),
        "time from the start of one stall to the start of the next; the first starts at a random time",
        needs="stall"),
    ImpairmentParameter("chunk", _ANY_STREAM, BoundedValue(_U.BYTES, 1, 1_000_000),
        "maximum size of the pieces in which the stream is sent", needs="gap"),
    ImpairmentParameter("gap", _ANY_STREAM, BoundedValue(_U.MILLISECONDS, 0, 10_000),
        "minimum time between two pieces", needs="chunk", source="toxiproxy's slicer"),
    ImpairmentParameter("limit", _ANY_STREAM, BoundedValue(_U.BYTES, 1, 1_000_000_000),
        "number of bytes per direction after which the connection is closed",
        source="toxiproxy's limit_data"),
    ImpairmentParameter("timeout", _ANY_STREAM, BoundedValue(_U.MILLISECONDS, 0, 600_000),
        "idle time after which the connection is closed", source="toxiproxy's timeout"),
    ImpairmentParameter("reset", _ANY_STREAM, BoundedValue(_U.MILLISECONDS, 0, 600_000),
        "time after which the connection is reset, in both directions", source="toxiproxy's reset_peer"),
    ImpairmentParameter("slow_close", _ANY_STREAM, BoundedValue(_U.MILLISECONDS, 0, 600_000),
        "delay of the end of the stream after its last byte", source="toxiproxy's slow_close"),
    ImpairmentParameter("noise", _AUDIO, BoundedValue(_U.DECIBELS, -30, 80),
        "signal-to-noise ratio; the noise continues while the user is silent",
        source="active speech level (ITU-T P.56) relative to the full-band RMS of the noise"),
    ImpairmentParameter("noise_type", _AUDIO,
        BoundedValue(_U.CHOICE_OR_PATH, choices=("pink", "white", "babble"), default="pink"),
        "pink (−3 dB per octave from 50 Hz), white, babble (eight voices of the bundled sample), or a "
        "folder of recordings, one of which is selected and looped", needs="noise"),
    ImpairmentParameter("reverb", _AUDIO, BoundedValue(_U.MILLISECONDS, 10, 10_000),
        "reverberation time RT60 of a room: noise that decays by 60 dB in that time",
        excludes=("room",), source="Polack 1988; ISO 3382 for RT60"),
    ImpairmentParameter("direct", _AUDIO, BoundedValue(_U.DECIBELS, -40, 60, default="0dB"),
        "energy of the direct sound relative to the reverberation", needs="reverb"),
    ImpairmentParameter("room", _AUDIO, BoundedValue(_U.PATH),
        "recording of a room's impulse response; its loudest sample is the direct sound",
        excludes=("reverb",)),
    ImpairmentParameter("gain", _AUDIO, BoundedValue(_U.DECIBELS, -60, 40),
        "change of level; samples beyond full scale are clipped"),
    ImpairmentParameter("clip", _AUDIO, BoundedValue(_U.PERCENT, 0, 100),
        "share of the active samples that are clipped; the level is preserved"),
    ImpairmentParameter("band", _AUDIO, BoundedValue(_U.CHOICE, choices=("telephone", "8khz")),
        "telephone (300 to 3,400 Hz) or 8khz (up to 4 kHz, as when sampled at 8 kHz)",
        source="ITU-T G.712 for the band of a telephone"),
    ImpairmentParameter("g711", _AUDIO, BoundedValue(_U.CHOICE, choices=("mulaw", "alaw")),
        "codec with which the audio is encoded and decoded at 8 kHz", source="ITU-T G.711"),
    ImpairmentParameter("speed", _AUDIO, BoundedValue(_U.PERCENT, 50, 200),
        "speed of the recording; speech boundaries are adjusted"),
    ImpairmentParameter("speed_type", _AUDIO,
        BoundedValue(_U.CHOICE, choices=("resample", "stretch"), default="resample"),
        "resample (pitch changes with speed) or stretch (pitch is kept; speech boundaries are off by up to "
        "25 ms)", needs="speed", source="WSOLA, ffmpeg's atempo"),
    ImpairmentParameter("echo", _AUDIO, BoundedValue(_U.DECIBELS, -80, 20),
        "level of the reply's echo in the microphone, relative to the reply"),
    ImpairmentParameter("echo_delay", _AUDIO, BoundedValue(_U.MILLISECONDS, 40, 2_000, default="100ms"),
        "delay of the echo after the reply's playback", needs="echo"),
)
# fmt: on

PARAMETERS: Mapping[str, ImpairmentParameter] = MappingProxyType({each.name: each for each in _ALL})
"""Every parameter by name, in canonical order."""
