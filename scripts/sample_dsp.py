"""Signal processing that creates the bundled sample's styles from one synthetic voice.

All audio is float32 mono, shape (samples,), at 24_000 Hz, in [-1, 1). The caller seeds the generator
of all noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray
from scipy.linalg import solve_toeplitz
from scipy.signal import butter, lfilter, sosfilt

__all__ = ["BACKGROUNDS", "RATE_HZ", "STYLES", "Say", "Sound", "Style", "level_db", "lowered", "mixed"]

RATE_HZ = 24_000

Sound = NDArray[np.float32]
Say = Callable[[str, float], Sound]
"""Says a text at a speed (1 is the voice's own)."""


@dataclass(frozen=True, slots=True)
class Style:
    """A style of speech.

    Args:
        speak: Function that synthesises a text from the voice and a noise generator.
        does: Description of the processing, for the sample's README.
    """

    speak: Callable[[str, Say, np.random.Generator], Sound]
    does: str


def level_db(sound: Sound) -> float:
    """Return the level of the audible frames: RMS of the 10 ms frames above −60 dBFS, in dBFS."""
    frames = sound[: len(sound) // 240 * 240].reshape(-1, 240).astype(np.float64)
    power = (frames**2).mean(axis=1)
    loud = power[power > 1e-6]
    return float(10 * np.log10(loud.mean())) if len(loud) else -np.inf


def mixed(speech: Sound, background: Sound, snr_db: float) -> Sound:
    """Mix a background into speech; the length and the speech are unchanged.

    The SNR is the speech's `level_db` over the background's RMS.
    """
    gain = 10 ** ((level_db(speech) - snr_db - _rms_db(background)) / 20)
    return (speech + gain * background[: len(speech)]).astype(np.float32)


def _rms_db(sound: Sound) -> float:
    return float(10 * np.log10(np.mean(sound.astype(np.float64) ** 2)))


def _at_level(sound: Sound, wanted_db: float) -> Sound:
    return (sound * 10 ** ((wanted_db - level_db(sound)) / 20)).astype(np.float32)


def _silence(seconds: float) -> Sound:
    return np.zeros(round(seconds * RATE_HZ), np.float32)


def _trimmed(sound: Sound) -> Sound:
    """Trim inaudible samples at both ends."""
    loud = np.flatnonzero(np.abs(sound) > 1e-3)
    return sound[loud[0] : loud[-1] + 1] if len(loud) else sound


def _pitched(text: str, say: Say, factor: float, pace: float) -> Sound:
    """Speak with pitch and formants scaled by `factor`: synthesise slower, resample faster, or vice versa."""
    spoken = say(text, pace / factor)
    return np.asarray(soxr.resample(spoken, RATE_HZ * factor, RATE_HZ, quality="VHQ"), np.float32)


def lowered(say: Say) -> Say:
    """Return another speaker: the voice with pitch and formants scaled by 0.8."""
    return lambda text, speed: _pitched(text, say, 0.8, speed)


def _plain(text: str, say: Say, _: np.random.Generator) -> Sound:
    return say(text, 1.0)


def _fast(text: str, say: Say, _: np.random.Generator) -> Sound:
    return say(text, 1.55)


def _slow(text: str, say: Say, _: np.random.Generator) -> Sound:
    return say(text, 0.65)


def _child(text: str, say: Say, _: np.random.Generator) -> Sound:
    return _pitched(text, say, 1.32, 0.95)


def _male(text: str, say: Say, _: np.random.Generator) -> Sound:
    return _pitched(text, say, 0.76, 0.95)


def _shout(text: str, say: Say, _: np.random.Generator) -> Sound:
    raised = _pitched(text, say, 1.12, 0.9)
    bright = raised + 1.6 * sosfilt(butter(2, 1_200, "high", fs=RATE_HZ, output="sos"), raised)
    return _at_level(np.tanh(6 * bright).astype(np.float32), -15)


def _whisper(text: str, say: Say, noise: np.random.Generator) -> Sound:
    return _at_level(_voiceless(say(text, 0.85), noise), -38)


def _sigh(text: str, say: Say, noise: np.random.Generator) -> Sound:
    breath = _at_level(_breath(1.1, noise, rise=0.18, formants=(620, 1_250, 2_600)), -31)
    return np.concatenate([_silence(0.25), _trimmed(say(text, 0.85)), _silence(0.15), breath, _silence(0.3)])


def _breathless(text: str, say: Say, noise: np.random.Generator) -> Sound:
    """Speak a text in short phrases, with a gasp before each phrase and panting after the last."""
    words, parts = text.split(), [_silence(0.1)]
    for run in _runs(words, 4):
        parts += [_gasp(0.34, noise), _silence(0.04), _airy(_trimmed(say(run, 1.15)), noise), _silence(0.05)]
    for _ in range(2):
        parts += [_gasp(0.3, noise), _silence(0.05), _puff(0.32, noise), _silence(0.06)]
    return np.concatenate([*parts, _silence(0.25)])


def _runs(words: list[str], length: int) -> list[str]:
    count = max(1, round(len(words) / length))
    return [" ".join(part) for part in np.array_split(np.array(words), count)]


def _airy(voice: Sound, noise: np.random.Generator) -> Sound:
    """Mix breath noise into a voice, following the voice's envelope."""
    return (voice + 0.35 * _voiceless(voice, noise)).astype(np.float32)


def _gasp(seconds: float, noise: np.random.Generator) -> Sound:
    return _at_level(_breath(seconds, noise, rise=0.7, formants=(900, 2_000, 3_600)), -34)


def _puff(seconds: float, noise: np.random.Generator) -> Sound:
    return _at_level(_breath(seconds, noise, rise=0.15, formants=(600, 1_300, 2_700)), -33)


def _breath(seconds: float, noise: np.random.Generator, *, rise: float, formants: tuple[float, ...]) -> Sound:
    """Return breath noise through an open mouth, increasing over the fraction `rise`, then decreasing."""
    samples = round(seconds * RATE_HZ)
    air = noise.standard_normal(samples)
    sound = 0.05 * sosfilt(butter(1, [300, 7_000], "band", fs=RATE_HZ, output="sos"), air)
    for hz in formants:
        radius = np.exp(-np.pi * 0.2 * hz / RATE_HZ)
        taps = [1, -2 * radius * np.cos(2 * np.pi * hz / RATE_HZ), radius**2]
        resonance = lfilter([1 - radius, 0, radius - 1], taps, air)
        sound = sound + resonance
    at = np.linspace(0, 1, samples)
    swell = np.where(at < rise, np.sin(np.pi / 2 * at / rise), np.cos(np.pi / 2 * (at - rise) / (1 - rise)))
    return np.asarray(0.1 * sound / np.abs(sound).max() * swell**1.5, np.float32)


def _voiceless(voice: Sound, noise: np.random.Generator, order: int = 28) -> Sound:
    """Replace the voice's excitation with noise: linear prediction per frame, with the residual's energy."""
    size, hop = 720, 240
    window = np.hanning(size + 1)[:-1]
    emphasised = lfilter([1, -0.95], [1], voice.astype(np.float64))
    padded = np.concatenate([np.zeros(size), emphasised, np.zeros(size)])
    excitation = noise.standard_normal(len(padded))
    out, weight = np.zeros(len(padded)), np.zeros(len(padded))
    for at in range(0, len(padded) - size, hop):
        frame = padded[at : at + size] * window
        power = np.correlate(frame, frame, "full")[size - 1 : size + order]
        if power[0] < 1e-7:
            continue
        power[0] *= 1.0005
        taps = solve_toeplitz(power[:-1], power[1:])
        gain = np.sqrt(max(power[0] - taps @ power[1:], 0) / (window @ window))
        out[at : at + size] += lfilter([gain], [1, *-taps], excitation[at : at + size]) * window
        weight[at : at + size] += window
    # The pre-emphasis is only half undone: a whisper has less low-frequency energy than a voice.
    whispered = lfilter([1], [1, -0.6], out / np.maximum(weight, 0.1))
    return np.asarray(whispered[size : size + len(voice)], np.float32)


STYLES: Mapping[str, Style] = {
    "neutral": Style(_plain, "the voice as it is"),
    "fast speaking pace": Style(_fast, "1.55 times the voice's pace"),
    "slow speaking pace": Style(_slow, "0.65 times the voice's pace"),
    "whisper": Style(_whisper, "excitation replaced by noise (linear prediction), 12 dB softer, slower"),
    "shout": Style(_shout, "11 dB louder, pitch up by 1.12, brighter, driven into saturation"),
    "child": Style(_child, "pitch and formants up by 1.32"),
    "male": Style(_male, "pitch and formants down by 0.76"),
    "sigh sound": Style(_sigh, "slower, and a breath out of 1.1 s after the last word"),
    "breathless sound / gasping sound / heavy breathing sound": Style(
        _breathless, "in short runs, with a gasp before each and panting after the last word"
    ),
}
"""How the speaker sounds, by the label of the data."""


def _rain(samples: int, noise: np.random.Generator) -> Sound:
    """Return rain: steady hiss and drops, which are short bursts at random times, levels and pitches."""
    hiss = sosfilt(butter(1, [600, 9_000], "band", fs=RATE_HZ, output="sos"), noise.standard_normal(samples))
    drops = np.zeros(samples)
    for at in noise.integers(0, samples, 90 * samples // RATE_HZ):
        length = min(int(noise.integers(40, 200)), samples - at)
        ring = np.sin(2 * np.pi * noise.uniform(1_500, 7_000) * np.arange(length) / RATE_HZ)
        drops[at : at + length] += noise.lognormal(0, 0.7) * ring * np.exp(-np.arange(length) / 30)
    return np.asarray(0.06 * hiss + 0.12 * drops, np.float32)


def _wind(samples: int, noise: np.random.Generator) -> Sound:
    """Return wind: low-frequency noise with slowly varying level and pitch."""
    low = sosfilt(butter(2, [60, 500], "band", fs=RATE_HZ, output="sos"), noise.standard_normal(samples))
    howl = sosfilt(butter(2, [500, 900], "band", fs=RATE_HZ, output="sos"), noise.standard_normal(samples))
    gusts = sosfilt(butter(2, 0.8, fs=RATE_HZ, output="sos"), noise.standard_normal(samples + RATE_HZ))
    gusts = gusts[RATE_HZ:] / np.abs(gusts).max()
    return np.asarray(low * (0.55 + 0.45 * gusts) + 0.5 * howl * np.maximum(gusts, 0), np.float32)


def _alarm(samples: int, _: np.random.Generator) -> Sound:
    """Return a digital alarm clock: four 90 ms beeps and a pause, repeated."""
    at = np.arange(samples) / RATE_HZ
    in_round = at % 1.0
    on = (in_round < 0.6) & (in_round % 0.15 < 0.09)
    beep = np.sin(2 * np.pi * 2_050 * at) + 0.35 * np.sin(2 * np.pi * 4_100 * at)
    edges = np.convolve(on.astype(np.float64), np.hanning(96) / np.hanning(96).sum(), "same")
    return (0.3 * beep * edges).astype(np.float32)


BACKGROUNDS: Mapping[str, Callable[[int, np.random.Generator], Sound]] = {
    "sound of raining": _rain,
    "sound of wind blowing": _wind,
    "sound of alarm clock ringing": _alarm,
}
"""What sounds behind the speaker, by the label of the data: a number of samples of it."""
