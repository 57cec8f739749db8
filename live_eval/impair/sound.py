"""What can be done to a recording. Pure; the rate stays, and nothing is delayed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, Codec, CodecName, decode, encode, int16_to_float, resample
from live_eval.audio.speech_level import speech_level

__all__ = [
    "at_length",
    "at_level",
    "at_speed",
    "clip",
    "in_room",
    "limit_band",
    "mix_noise",
    "room_response",
    "through_g711",
    "within_full_scale",
]

_TELEPHONE_HZ = 8_000
_BAND_HZ = (300, 3_400)
_FALL = 3 * np.log(10)  # 60 dB of amplitude, as a natural exponent


def mix_noise(audio: Audio, noise: NDArray[np.float64], snr_db: float, level: float | None = None) -> Audio:
    """Return the recording with noise.

    ``y = x + n`` with ``rms(n) = level · 10^(−snr_db / 20)``: the ratio is that of active speech to noise,
    over the whole band up to half the rate. Where the sum would exceed full scale both are turned down
    together.

    Args:
        audio: The recording.
        noise: Noise with an RMS of 1, as long as the recording.
        snr_db: Signal-to-noise ratio in decibels.
        level: RMS of the active speech; None for `speech_level` of the recording. Nothing is added to 0.
    """
    rms = speech_level(audio).rms if level is None else level
    return within_full_scale(audio.samples + rms * 10 ** (-snr_db / 20) * noise, audio.rate_hz)


def clip(audio: Audio, share: float = 0.1) -> Audio:
    """Return the recording as if it had been recorded too loud: ``y = min(max(x, −t), t)``.

    The threshold ``t`` is chosen so that `share` of the active samples exceed it. The result is brought back
    to the active level of the recording: the distortion is heard, not the loudness. So what was clipped does
    not lie at full scale.

    Args:
        audio: The recording; one without sound is returned as it is.
        share: Share of the active samples (by `speech_level`) that are clipped, 0 to 1.
    """
    level = speech_level(audio)
    if level.rms == 0:
        return audio
    threshold = np.quantile(np.abs(audio.samples), 1 - min(1.0, share) * level.activity)
    clipped = np.clip(audio.samples, -threshold, threshold).astype(np.float32)
    return at_level(Audio(clipped, audio.rate_hz), level.rms)


def room_response(rate_hz: int, rt60_ms: float, direct_db: float, seed: int) -> NDArray[np.float64]:
    """Return the impulse response of a room: the direct sound, then noise that decays exponentially.

    ``h(t) = n(t) · 10^(−3t / RT60)`` behind the direct sound ``h(0) = 1`` (Polack's model), so that the level
    falls by 60 dB in RT60; ``direct_db = 10 log10(h(0)² / Σ h(t)²)``.

    Args:
        rate_hz: Samples per second.
        rt60_ms: Reverberation time in milliseconds, which is also the length of the response.
        direct_db: Energy of the direct sound relative to the reverberation's, in decibels.
        seed: Seed of the noise.
    """
    length = max(2, round(rt60_ms * rate_hz / 1000))
    at = np.arange(1, length) / length
    tail = np.random.default_rng(seed).standard_normal(length - 1) * np.exp(-_FALL * at)
    tail *= 10 ** (-direct_db / 20) / np.sqrt(np.square(tail).sum())
    return np.concatenate(([1.0], tail))


def in_room(audio: Audio, response: NDArray[np.float64]) -> Audio:
    """Return the recording as heard in a room, at its active level, and longer by the response.

    Args:
        audio: The recording; one without sound gets longer too.
        response: The room's impulse response at the recording's rate, its direct sound first.
    """
    from scipy.signal import oaconvolve

    heard = oaconvolve(audio.samples.astype(np.float64), response).astype(np.float32)
    return at_level(Audio(heard, audio.rate_hz), speech_level(audio).rms)


def limit_band(audio: Audio, band: Literal["telephone", "8khz"]) -> Audio:
    """Return the recording without what a narrow band does not carry.

    Args:
        audio: The recording.
        band: ``telephone`` for 300 to 3,400 Hz (a Butterworth filter of order 4, run both ways so that it
            delays nothing), ``8khz`` for what 8,000 samples per second hold.
    """
    if band == "telephone" and len(audio.samples):
        from scipy.signal import butter, sosfiltfilt

        band_hz = (_BAND_HZ[0], min(_BAND_HZ[1], 0.45 * audio.rate_hz))
        sections = butter(4, band_hz, "bandpass", fs=audio.rate_hz, output="sos")
        padding = min(3 * (2 * len(sections) + 1), len(audio.samples) - 1)
        filtered = sosfiltfilt(sections, audio.samples.astype(np.float64), padlen=padding)
        audio = Audio(filtered.astype(np.float32), audio.rate_hz)
    return _there_and_back(audio, resample(audio, _TELEPHONE_HZ))


def through_g711(audio: Audio, law: Literal["mulaw", "alaw"]) -> Audio:
    """Return the recording encoded with G.711 at 8 kHz, and decoded."""
    narrow = resample(audio, _TELEPHONE_HZ)
    codec = Codec(CodecName.PCMU if law == "mulaw" else CodecName.PCMA, _TELEPHONE_HZ)
    decoded = int16_to_float(decode(encode(narrow.int16(), codec), codec))
    return _there_and_back(audio, Audio(decoded, _TELEPHONE_HZ))


def at_speed(audio: Audio, factor: float, *, keeps_pitch: bool) -> Audio:
    """Return the recording played faster or slower.

    Args:
        audio: The recording.
        factor: Its speed; 2 for half as long.
        keeps_pitch: Whether to stretch it (WSOLA, ffmpeg's atempo) instead of resampling it.
    """
    length = round(len(audio.samples) / factor)
    if keeps_pitch:
        samples = _stretched(audio, factor)
    else:  # the same samples at another rate, resampled to the first one
        played = Audio(audio.samples, max(1, round(audio.rate_hz * factor)))
        samples = resample(played, audio.rate_hz).samples
    return Audio(at_length(samples, length), audio.rate_hz)


def at_length(samples: NDArray[Any], length: int) -> NDArray[Any]:
    """Return samples cut to a length, or padded with silence."""
    return np.pad(samples[:length], (0, max(0, length - len(samples))))


def at_level(audio: Audio, level: float) -> Audio:
    """Return a recording at an active level (RMS), or as near to it as full scale allows."""
    found = speech_level(audio).rms
    return within_full_scale(audio.samples * (level / found if found else 1.0), audio.rate_hz)


def within_full_scale(samples: NDArray[Any], rate_hz: int) -> Audio:
    """Return samples as audio, turned down where they exceed full scale."""
    peak = float(np.abs(samples).max(initial=0.0))
    most = 32767 / 32768
    return Audio((samples * min(1.0, most / peak) if peak else samples).astype(np.float32), rate_hz)


def _there_and_back(audio: Audio, narrow: Audio) -> Audio:
    """Return a recording that was converted to another rate at the rate and length that it had."""
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
