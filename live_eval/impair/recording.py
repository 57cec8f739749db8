"""Impair recordings: speed, room, noise, level, clipping and band. Pure, except for reading files.

Sample rate and onset do not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, Codec, CodecName, decode, encode, int16_to_float, read_audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.impair.noises import noise
from live_eval.impair.spec import Impairment
from live_eval.types import SpeechBoundaries

__all__ = [
    "ImpairedRecording",
    "at_length",
    "at_level",
    "clip",
    "impair_recording",
    "mix_noise",
    "room_response",
]

_TELEPHONE_HZ = 8_000
_BAND_HZ = (300, 3_400)
_FALL = 3 * np.log(10)  # 60 dB of amplitude, as a natural exponent
_BACKGROUND_S = 10


@dataclass(frozen=True, slots=True, eq=False)
class ImpairedRecording:
    """A recording after impairment, as sent to the endpoint.

    Args:
        audio: The recording, which a room's reverberation makes longer than the clean one.
        boundaries: Boundaries of the user's speech; only a change of speed shifts them.
        background: Audio looped while the user is silent; None for silence.
    """

    audio: Audio
    boundaries: SpeechBoundaries
    background: Audio | None


def impair_recording(audio: Audio, boundaries: SpeechBoundaries, impairment: Impairment) -> ImpairedRecording:
    """Impair a recording: speed, room, noise, gain, clipping, band, G.711, in this order.

    Args:
        audio: The clean recording, at the endpoint's rate.
        boundaries: Boundaries of the user's speech in `audio`.

    Raises:
        AudioError: A noise or room file cannot be used.
    """
    speed = (impairment.number("speed") or 100.0) / 100
    if speed != 1:
        audio = _at_speed(audio, speed, keeps_pitch=impairment.text("speed_type") == "stretch")
        boundaries = _boundaries_at_speed(boundaries, speed)
    response = _room(audio.rate_hz, impairment)
    if response is not None:
        audio = _in_room(audio, response)
    length = len(audio.samples)
    snr_db = impairment.number("noise")
    if snr_db is not None:  # impair the background after the recording in the same way
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
        audio = _limit_band(audio, cast(Literal["telephone", "8khz"], band))
    if (law := impairment.text("g711")) is not None:
        audio = _through_g711(audio, cast(Literal["mulaw", "alaw"], law))
    heard, behind = (
        Audio(samples, audio.rate_hz) for samples in (audio.samples[:length], audio.samples[length:])
    )
    return ImpairedRecording(heard, boundaries, behind if len(behind.samples) else None)


def _room(rate_hz: int, impairment: Impairment) -> NDArray[np.float64] | None:
    """Return the impulse response of the room, which begins with the direct sound; None without a room."""
    rt60_ms, direct_db = impairment.number("reverb"), impairment.number("direct")
    if rt60_ms is not None:
        return room_response(rate_hz, rt60_ms, direct_db or 0.0, impairment.seed)
    path = impairment.text("room")
    if path is None:
        return None
    found = resample(read_audio(Path(path).expanduser()).audio, rate_hz).samples.astype(np.float64)
    return found[int(np.argmax(np.abs(found))) :]


def _boundaries_at_speed(boundaries: SpeechBoundaries, speed: float) -> SpeechBoundaries:
    words_end_ns = boundaries.words_end_ns
    return replace(
        boundaries,
        onset_ns=round(boundaries.onset_ns / speed),
        voice_end_ns=round(boundaries.voice_end_ns / speed),
        words_end_ns=None if words_end_ns is None else round(words_end_ns / speed),
    )


def mix_noise(audio: Audio, noise: NDArray[np.float64], snr_db: float, level: float | None = None) -> Audio:
    """Add noise to a recording.

    ``y = x + n`` with ``rms(n) = level · 10^(−snr_db / 20)``, which is the ratio of active speech to noise
    over the full band, up to half the sample rate. If the sum exceeds full scale, it is attenuated.

    Args:
        noise: Noise with an RMS of 1, as long as the recording.
        level: RMS of the active speech; defaults to the recording's `speech_level`. With 0, no noise is
            added.
    """
    rms = speech_level(audio).rms if level is None else level
    return _within_full_scale(audio.samples + rms * 10 ** (-snr_db / 20) * noise, audio.rate_hz)


def clip(audio: Audio, share: float = 0.1) -> Audio:
    """Clip a recording as an excessive level would: ``y = min(max(x, −t), t)``.

    A `share` (0 to 1) of the active samples (`speech_level`) exceeds the threshold ``t``. The active level of
    the recording is then restored, so that only the distortion is audible and clipped samples are below full
    scale. Silence is returned unchanged.
    """
    level = speech_level(audio)
    if level.rms == 0:
        return audio
    threshold = np.quantile(np.abs(audio.samples), 1 - min(1.0, share) * level.activity)
    clipped = np.clip(audio.samples, -threshold, threshold).astype(np.float32)
    return at_level(Audio(clipped, audio.rate_hz), level.rms)


def room_response(rate_hz: int, rt60_ms: float, direct_db: float, seed: int) -> NDArray[np.float64]:
    """Return the impulse response of a room: the direct sound, then noise that decays exponentially.

    ``h(t) = n(t) · 10^(−3t / RT60)`` after the direct sound ``h(0) = 1`` (Polack's model), so that the level
    falls by 60 dB in RT60; ``direct_db = 10 log10(h(0)² / Σ h(t)²)``.

    Args:
        rt60_ms: Reverberation time in milliseconds, also the length of the response.
        direct_db: Energy of the direct sound relative to the reverberation, in decibels.
    """
    length = max(2, round(rt60_ms * rate_hz / 1000))
    at = np.arange(1, length) / length
    tail = np.random.default_rng(seed).standard_normal(length - 1) * np.exp(-_FALL * at)
    tail *= 10 ** (-direct_db / 20) / np.sqrt(np.square(tail).sum())
    return np.concatenate(([1.0], tail))


def _in_room(audio: Audio, response: NDArray[np.float64]) -> Audio:
    """Return the recording as heard in a room, at the same active level but lengthened by the response."""
    from scipy.signal import oaconvolve

    heard = oaconvolve(audio.samples.astype(np.float64), response).astype(np.float32)
    return at_level(Audio(heard, audio.rate_hz), speech_level(audio).rms)


def _limit_band(audio: Audio, band: Literal["telephone", "8khz"]) -> Audio:
    """Return the recording limited to the telephone band (300 to 3,400 Hz) or to the band of 8 kHz audio."""
    if band == "telephone" and len(audio.samples):
        from scipy.signal import butter, sosfiltfilt

        band_hz = (_BAND_HZ[0], min(_BAND_HZ[1], 0.45 * audio.rate_hz))
        sections = butter(4, band_hz, "bandpass", fs=audio.rate_hz, output="sos")
        padding = min(3 * (2 * len(sections) + 1), len(audio.samples) - 1)
        filtered = sosfiltfilt(sections, audio.samples.astype(np.float64), padlen=padding)
        audio = Audio(filtered.astype(np.float32), audio.rate_hz)
    return _there_and_back(audio, resample(audio, _TELEPHONE_HZ))


def _through_g711(audio: Audio, law: Literal["mulaw", "alaw"]) -> Audio:
    narrow = resample(audio, _TELEPHONE_HZ)
    codec = Codec(CodecName.PCMU if law == "mulaw" else CodecName.PCMA, _TELEPHONE_HZ)
    decoded = int16_to_float(decode(encode(narrow.int16(), codec), codec))
    return _there_and_back(audio, Audio(decoded, _TELEPHONE_HZ))


def _at_speed(audio: Audio, factor: float, *, keeps_pitch: bool) -> Audio:
    """Return the recording at a speed of `factor`, stretched (WSOLA, ffmpeg's atempo) or resampled."""
    length = round(len(audio.samples) / factor)
    if keeps_pitch:
        samples = _stretched(audio, factor)
    else:  # reinterpret the samples at another rate, then resample them
        played = Audio(audio.samples, max(1, round(audio.rate_hz * factor)))
        samples = resample(played, audio.rate_hz).samples
    return Audio(at_length(samples, length), audio.rate_hz)


def at_length(samples: NDArray[Any], length: int) -> NDArray[Any]:
    """Return samples truncated to a length, or padded with silence."""
    return np.pad(samples[:length], (0, max(0, length - len(samples))))


def at_level(audio: Audio, level: float) -> Audio:
    """Return a recording scaled to an active level (RMS), or less if it would exceed full scale."""
    found = speech_level(audio).rms
    return _within_full_scale(audio.samples * (level / found if found else 1.0), audio.rate_hz)


def _within_full_scale(samples: NDArray[Any], rate_hz: int) -> Audio:
    """Return samples as audio, attenuated if they exceed full scale."""
    peak = float(np.abs(samples).max(initial=0.0))
    most = 32767 / 32768
    return Audio((samples * min(1.0, most / peak) if peak else samples).astype(np.float32), rate_hz)


def _there_and_back(audio: Audio, narrow: Audio) -> Audio:
    """Convert a recording to narrow band and back, at the original rate and length."""
    back = resample(narrow, audio.rate_hz)
    return Audio(at_length(back.samples, len(audio.samples)), audio.rate_hz)


def _stretched(audio: Audio, factor: float) -> NDArray[np.float32]:
    import av

    graph = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=audio.rate_hz, format="flt", layout="mono")
    stretching, sink = graph.add("atempo", f"{factor:.6f}"), graph.add("abuffersink")
    source.link_to(stretching)
    stretching.link_to(sink)
    graph.configure()
    frame = av.AudioFrame.from_ndarray(audio.samples.reshape(1, -1), format="flt", layout="mono")
    frame.sample_rate = audio.rate_hz
    graph.push(frame)
    graph.push(None)
    pieces = []
    while True:
        try:
            pieces.append(graph.pull().to_ndarray().reshape(-1))
        except (av.EOFError, BlockingIOError):
            break
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
