"""The impairments: what each damages, its parameters, their units and bounds, and the model behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

__all__ = ["PARAMETERS", "QUEUE_MS", "ImpairedLayer", "ImpairmentParameter", "ValueUnit"]


class ImpairedLayer(StrEnum):
    """What an impairment damages."""

    AUDIO = "audio"
    """The user's sound, before it is sent."""
    WEBSOCKET = "websocket"
    """The byte stream of a WebSocket."""
    HTTP = "http"
    """The byte stream of requests and their answers."""
    WEBRTC = "webrtc"
    """The datagrams of a WebRTC connection."""
    SIGNALLING = "signalling"
    """The byte stream of the requests that set a WebRTC connection up."""


class ValueUnit(StrEnum):
    """The unit of a value. Values are kept as numbers of it."""

    PERCENT = "%"
    MILLISECONDS = "ms"
    DECIBELS = "dB"
    KILOBITS = "kbps"
    BYTES = "B"
    PACKETS = "packets"
    CHOICE = "choice"
    CHOICE_OR_PATH = "choice or path"
    PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpairmentParameter:
    """One ``NAME=VALUE`` of an impairment.

    Args:
        name: Its name.
        layers: What it damages; a network parameter that two transports share has both.
        unit: The unit of its value.
        help: What the value means.
        low: The least value.
        high: The greatest value.
        choices: The values of a choice.
        default: Its value where what it belongs to is given without it; None for none.
        needs: The parameter without which it has no meaning; empty if there is none.
        excludes: The parameters that contradict it.
        source: The model or standard that it follows.
    """

    name: str
    layers: tuple[ImpairedLayer, ...]
    unit: ValueUnit
    help: str
    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()
    default: str | None = None
    needs: str = ""
    excludes: tuple[str, ...] = ()
    source: str = ""

    @property
    def on_network(self) -> bool:
        """Whether it damages traffic, of which each direction may have its own value."""
        return ImpairedLayer.AUDIO not in self.layers

    def names_file(self, value: str) -> bool:
        """Return whether a value is the path of a file or a folder."""
        if self.unit is ValueUnit.CHOICE_OR_PATH:
            return value not in self.choices
        return self.unit is ValueUnit.PATH


QUEUE_MS = 200.0
"""Default of `queue`."""
_AUDIO = (ImpairedLayer.AUDIO,)
_RTC = (ImpairedLayer.WEBRTC,)
_STREAM = (ImpairedLayer.WEBSOCKET, ImpairedLayer.HTTP)
_ANY_STREAM = (*_STREAM, ImpairedLayer.SIGNALLING)
_GILBERT = "Gilbert 1960, parametrised as in WebRTC's SimulatedNetwork"
_NETEM = "as in Linux's netem"
_TOXIPROXY = "toxiproxy's {}"

_ALL = (
    ImpairmentParameter(
        name="loss",
        layers=_RTC,
        unit=ValueUnit.PERCENT,
        high=100,
        help="share of packets that are lost, each by itself, or in bursts where `burst` is given",
        source=_GILBERT,
    ),
    ImpairmentParameter(
        name="burst",
        layers=_RTC,
        unit=ValueUnit.PACKETS,
        low=1,
        high=1_000,
        needs="loss",
        help="mean number of packets that are lost one after the other",
        source=_GILBERT,
    ),
    ImpairmentParameter(
        name="delay",
        layers=(*_RTC, *_ANY_STREAM),
        unit=ValueUnit.MILLISECONDS,
        high=10_000,
        help="added to the way of every packet, in each direction",
    ),
    ImpairmentParameter(
        name="jitter",
        layers=(*_RTC, *_ANY_STREAM),
        unit=ValueUnit.MILLISECONDS,
        high=1_000,
        help="standard deviation of the delay: normal, independent, cut off at no delay; no packet overtakes "
        "another because of it",
        source="as in WebRTC's SimulatedNetwork without reordering",
    ),
    ImpairmentParameter(
        name="reorder",
        layers=_RTC,
        unit=ValueUnit.PERCENT,
        high=100,
        help="share of packets that are held back while those behind them pass",
        source="RFC 4737 for what counts as reordered",
    ),
    ImpairmentParameter(
        name="reorder_by",
        layers=_RTC,
        unit=ValueUnit.MILLISECONDS,
        low=1,
        high=1_000,
        default="30ms",
        needs="reorder",
        help="for how long they are held back",
    ),
    ImpairmentParameter(
        name="duplicate",
        layers=_RTC,
        unit=ValueUnit.PERCENT,
        high=100,
        help="share of packets that arrive twice",
        source=_NETEM,
    ),
    ImpairmentParameter(
        name="bandwidth",
        layers=(*_RTC, *_ANY_STREAM),
        unit=ValueUnit.KILOBITS,
        low=1,
        high=1_000_000,
        help="capacity of the link in each direction; on WebRTC 28 bytes of IPv4 and UDP headers count with "
        "each packet, elsewhere the bytes of the stream count",
    ),
    ImpairmentParameter(
        name="queue",
        layers=_RTC,
        unit=ValueUnit.MILLISECONDS,
        high=10_000,
        default=f"{QUEUE_MS:g}ms",
        needs="bandwidth",
        help="longest wait for the link; a packet that would wait longer is lost (drop-tail)",
    ),
    ImpairmentParameter(
        name="stall",
        layers=_STREAM,
        unit=ValueUnit.MILLISECONDS,
        high=60_000,
        needs="every",
        help="length of periods in which nothing passes, as while TCP repairs a loss",
    ),
    ImpairmentParameter(
        name="every",
        layers=_STREAM,
        unit=ValueUnit.MILLISECONDS,
        low=1,
        high=600_000,
        needs="stall",
        help="from the beginning of one stall to that of the next; the first begins at a random moment of it",
    ),
    ImpairmentParameter(
        name="chunk",
        layers=_ANY_STREAM,
        unit=ValueUnit.BYTES,
        low=1,
        high=1_000_000,
        needs="gap",
        help="longest piece of the stream that travels at once",
    ),
    ImpairmentParameter(
        name="gap",
        layers=_ANY_STREAM,
        unit=ValueUnit.MILLISECONDS,
        high=10_000,
        needs="chunk",
        help="least time between two pieces",
        source=_TOXIPROXY.format("slicer"),
    ),
    ImpairmentParameter(
        name="limit",
        layers=_ANY_STREAM,
        unit=ValueUnit.BYTES,
        low=1,
        high=1_000_000_000,
        help="how many bytes pass in each direction before the connection is closed",
        source=_TOXIPROXY.format("limit_data"),
    ),
    ImpairmentParameter(
        name="timeout",
        layers=_ANY_STREAM,
        unit=ValueUnit.MILLISECONDS,
        high=600_000,
        help="nothing passes, and the connection is closed after this time",
        source=_TOXIPROXY.format("timeout"),
    ),
    ImpairmentParameter(
        name="reset",
        layers=_ANY_STREAM,
        unit=ValueUnit.MILLISECONDS,
        high=600_000,
        help="the connection is reset, in both directions, after this time",
        source=_TOXIPROXY.format("reset_peer"),
    ),
    ImpairmentParameter(
        name="slow_close",
        layers=_ANY_STREAM,
        unit=ValueUnit.MILLISECONDS,
        high=600_000,
        help="the end of the stream arrives so much later than its last byte",
        source=_TOXIPROXY.format("slow_close"),
    ),
    ImpairmentParameter(
        name="noise",
        layers=_AUDIO,
        unit=ValueUnit.DECIBELS,
        low=-30,
        high=80,
        help="signal-to-noise ratio; noise goes on while the user is silent",
        source="active speech level of ITU-T P.56 against the noise's RMS over the whole band",
    ),
    ImpairmentParameter(
        name="noise_type",
        layers=_AUDIO,
        unit=ValueUnit.CHOICE_OR_PATH,
        choices=("pink", "white", "babble"),
        default="pink",
        needs="noise",
        help="pink (−3 dB per octave from 50 Hz), white, babble (eight voices of the bundled sample), or a "
        "folder of recordings, one of which is chosen and looped",
    ),
    ImpairmentParameter(
        name="reverb",
        layers=_AUDIO,
        unit=ValueUnit.MILLISECONDS,
        low=10,
        high=10_000,
        excludes=("room",),
        help="reverberation time RT60 of a room: noise that decays by 60 dB in that time",
        source="Polack 1988; ISO 3382 for RT60",
    ),
    ImpairmentParameter(
        name="direct",
        layers=_AUDIO,
        unit=ValueUnit.DECIBELS,
        low=-40,
        high=60,
        default="0dB",
        needs="reverb",
        help="energy of the direct sound relative to the reverberation's",
    ),
    ImpairmentParameter(
        name="room",
        layers=_AUDIO,
        unit=ValueUnit.PATH,
        excludes=("reverb",),
        help="recording of a room's impulse response; its loudest sample is taken for the direct sound",
    ),
    ImpairmentParameter(
        name="gain",
        layers=_AUDIO,
        unit=ValueUnit.DECIBELS,
        low=-60,
        high=40,
        help="change of level; what exceeds full scale is clipped",
    ),
    ImpairmentParameter(
        name="clip",
        layers=_AUDIO,
        unit=ValueUnit.PERCENT,
        high=100,
        help="share of the active samples that are clipped; the level stays",
    ),
    ImpairmentParameter(
        name="band",
        layers=_AUDIO,
        unit=ValueUnit.CHOICE,
        choices=("telephone", "8khz"),
        help="telephone (300 to 3,400 Hz) or 8khz (up to 4 kHz, as sampled at 8 kHz)",
        source="ITU-T G.712 for the band of a telephone",
    ),
    ImpairmentParameter(
        name="g711",
        layers=_AUDIO,
        unit=ValueUnit.CHOICE,
        choices=("mulaw", "alaw"),
        help="encoded and decoded at 8 kHz",
        source="ITU-T G.711",
    ),
    ImpairmentParameter(
        name="speed",
        layers=_AUDIO,
        unit=ValueUnit.PERCENT,
        low=50,
        high=200,
        help="speed of the recording; its speech boundaries move with it",
    ),
    ImpairmentParameter(
        name="speed_type",
        layers=_AUDIO,
        unit=ValueUnit.CHOICE,
        choices=("resample", "stretch"),
        default="resample",
        needs="speed",
        help="resample (pitch moves with the speed) or stretch (pitch stays; speech boundaries are off by up "
        "to 25 ms)",
        source="WSOLA, ffmpeg's atempo",
    ),
    ImpairmentParameter(
        name="echo",
        layers=_AUDIO,
        unit=ValueUnit.DECIBELS,
        low=-80,
        high=20,
        help="level at which the reply comes back through the microphone, relative to the reply",
    ),
    ImpairmentParameter(
        name="echo_delay",
        layers=_AUDIO,
        unit=ValueUnit.MILLISECONDS,
        low=40,
        high=2_000,
        default="100ms",
        needs="echo",
        help="from when the reply is heard until it comes back",
    ),
)

PARAMETERS: Mapping[str, ImpairmentParameter] = MappingProxyType({each.name: each for each in _ALL})
"""Every parameter by name, in canonical order."""
