"""A recording with the damage that an impairment does to it. Pure, but for files of noise and of rooms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, read_audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.impair.noises import noise
from live_eval.impair.sound import (
    at_speed,
    clip,
    in_room,
    limit_band,
    mix_noise,
    room_response,
    through_g711,
)
from live_eval.impair.spec import Impairment
from live_eval.types import SpeechBoundaries

__all__ = ["ImpairedRecording", "impair_recording"]

_BACKGROUND_S = 10


@dataclass(frozen=True, slots=True, eq=False)
class ImpairedRecording:
    """A recording as the endpoint hears it.

    Args:
        audio: The recording; longer than the clean one by a room's reverberation.
        boundaries: Where the speaker's own sound lies in it: where it lay in the clean recording, and moved
            only by a change of speed.
        background: What is heard while the user is silent, to be looped; None for silence.
    """

    audio: Audio
    boundaries: SpeechBoundaries
    background: Audio | None


def impair_recording(audio: Audio, boundaries: SpeechBoundaries, impairment: Impairment) -> ImpairedRecording:
    """Damage a recording: speed, room, noise, gain, clipping, band, G.711, in this order.

    Args:
        audio: The clean recording, at the endpoint's rate.
        boundaries: Where the speaker's own sound lies in it.
        impairment: What to do, with the session's seed.

    Raises:
        AudioError: A file of noise or of a room cannot be used.
    """
    speed = (impairment.number("speed") or 100.0) / 100
    if speed != 1:
        audio = at_speed(audio, speed, keeps_pitch=impairment.text("speed_type") == "stretch")
        boundaries = _at_speed(boundaries, speed)
    response = _room(audio.rate_hz, impairment)
    if response is not None:
        audio = in_room(audio, response)
    length = len(audio.samples)
    snr_db = impairment.number("noise")
    if snr_db is not None:  # what is heard behind the recording goes through the same damage
        level = speech_level(audio).rms
        samples = np.concatenate((audio.samples, np.zeros(_BACKGROUND_S * audio.rate_hz, np.float32)))
        kind = str(impairment.text("noise_type"))
        added = noise(kind, len(samples), audio.rate_hz, impairment.seed, length)
        audio = mix_noise(Audio(samples, audio.rate_hz), added, snr_db, level)
    gain_db, share = impairment.number("gain"), impairment.number("clip")
    if gain_db is not None:
        loud = np.clip(audio.samples * 10 ** (gain_db / 20), -1, 32767 / 32768)
        audio = Audio(loud.astype(np.float32), audio.rate_hz)
    if share is not None:
        audio = clip(audio, share / 100)
    if (band := impairment.text("band")) is not None:
        audio = limit_band(audio, cast(Literal["telephone", "8khz"], band))
    if (law := impairment.text("g711")) is not None:
        audio = through_g711(audio, cast(Literal["mulaw", "alaw"], law))
    heard, behind = (
        Audio(samples, audio.rate_hz) for samples in (audio.samples[:length], audio.samples[length:])
    )
    return ImpairedRecording(heard, boundaries, behind if len(behind.samples) else None)


def _room(rate_hz: int, impairment: Impairment) -> NDArray[np.float64] | None:
    """Return the impulse response of the room, its direct sound first; None where there is no room."""
    rt60_ms, direct_db = impairment.number("reverb"), impairment.number("direct")
    if rt60_ms is not None:
        return room_response(rate_hz, rt60_ms, direct_db or 0.0, impairment.seed)
    path = impairment.text("room")
    if path is None:
        return None
    found = resample(read_audio(Path(path).expanduser()).audio, rate_hz).samples.astype(np.float64)
    return found[int(np.argmax(np.abs(found))) :]


def _at_speed(boundaries: SpeechBoundaries, speed: float) -> SpeechBoundaries:
    words_end_ns = boundaries.words_end_ns
    return replace(
        boundaries,
        onset_ns=round(boundaries.onset_ns / speed),
        voice_end_ns=round(boundaries.voice_end_ns / speed),
        words_end_ns=None if words_end_ns is None else round(words_end_ns / speed),
    )
