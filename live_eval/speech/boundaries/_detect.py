"""Find the speaker's own sounds, and locate the start of the first and the end of the last exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio
from live_eval.speech.boundaries._background import SCALES, Background, SoundSegment
from live_eval.speech.boundaries._scene import DEPTH_DB, FEWEST_QUIET, Scene, survey, widened

_ROUNDS = 4
# A pause of this many frames splits a sound, except in noise, which would fragment weak speech.
_PAUSE_CLEAN, _PAUSE_NOISY = 5, 1_000_000

# A sound is part of the voice if the network detects speech in at least this share of it.
_SPEECH_SHARE = 0.3
# A sound apart from the voice is the speaker's own if it is significant, near, loud enough and not a click. A
# sound is strong if it has this share of the voice's evidence or this significance.
_SIGNIFICANT, _VERY_SIGNIFICANT = 6.0, 10.0
_STRONG_SHARE = 0.03
_FAR_S, _FAR_WEAK_S = 2.0, 0.8
_NEAR_FRAMES, _NEAR_DB = 30, -36.0
_CLICK_FRAMES = 8
_LOUD_DB = -34.0
_LONG_FRAMES, _LONG_DB = 30, -38.0
# A plosive after its closure is short but dense, with much evidence per frame.
_BURST_NEAR_FRAMES, _BURST_FRAMES, _BURST_SIGNIFICANT, _BURST_DENSITY = 50, 4, 4.0, 3.0

# For each scale: the delay in frames of a strong boundary, since the scale looks ahead; the distance after
# the finer scales' boundary beyond which a boundary counts as a separate, weaker one; the search range for
# its exact position; and the share of its last frames that must exceed most of the background (those of a
# raindrop do not).
_LATE_FRAMES = (0, 2, 5, 18)
_LATER_FRAMES = (0, 3, 4, 25)
_AROUND_FRAMES = (0, 10, 20, 40)
_TAIL_FRAMES, _TAIL_SHARES = (0, 8, 15, 15), (0.0, 0.7, 0.6, 0.6)
# scales that are stable enough to find the background
_STEADY_SCALES = (2, 3)

# Noise hides the end if it masks a sound this far below the voice, if weak evidence or a different background
# estimate moves the end by this much, or if voice activity continues for this long after the end.
_LIMIT_DB = -15.5
_DOUBT_S = 0.06
_OTHER_SPEECH_S = 0.15
_DOUBTFUL = {1: 4.0, 2: 2.0}  # limits by scale, relative to the level expected by chance


@dataclass(frozen=True, slots=True)
class SpeechDetection:
    """The start and end of the speaker's own sounds, in seconds from the recording's first sample."""

    onset_s: float
    voice_end_s: float
    found: bool  # False if nothing exceeds the background; the boundaries are then those of the recording
    trouble: str  # reason why the end is unreliable; empty if it is reliable


@dataclass(frozen=True, slots=True)
class _Finding:
    """The speaker's own sounds: frames from `start` to `end` (exclusive)."""

    start: int
    end: int
    weak_after_end: int  # number of frames after the end with weak evidence
    limit_db: float  # level relative to the voice below which the background masks sounds


def detect(audio: Audio, probabilities: NDArray[np.float32]) -> SpeechDetection:
    """Find the start and end of the speaker's own sounds; for the arguments, see `survey`."""
    scene = survey(audio, probabilities)
    duration_s = len(audio.samples) / audio.rate_hz
    if not scene.clean and scene.quiet.sum() < FEWEST_QUIET:
        return SpeechDetection(
            0.0, duration_s, True, "too little background to distinguish it from the voice"
        )
    finding = _search(scene, scene.quiet)
    if finding is None:
        return SpeechDetection(0.0, duration_s, False, "no sound exceeds the background")
    voice_end_s = min(duration_s, max(0.0, (finding.end - 0.5) * scene.hop_s))
    onset_s = min(voice_end_s, max(0.0, (finding.start - 0.5) * scene.hop_s))
    if scene.clean:
        floor = scene.voice * 10 ** (-DEPTH_DB / 10)
        voice_end_s = _sharpened(audio.samples, audio.rate_hz, voice_end_s, floor)
        onset_s = duration_s - _sharpened(audio.samples[::-1], audio.rate_hz, duration_s - onset_s, floor)
    return SpeechDetection(onset_s, voice_end_s, True, _trouble(scene, finding))


def _trouble(scene: Scene, finding: _Finding) -> str:
    """Return the reason why noise hides the end; empty if the end is clear."""
    if scene.clean:
        return ""
    if finding.limit_db > _LIMIT_DB:
        if finding.limit_db >= 0:
            return "noise hides the end: it is as loud as the voice"
        return f"noise hides the end: a sound {-finding.limit_db:.0f} dB below the voice would be masked"
    if not scene.aware:
        return "noise hides the end: voice activity detection cannot separate the voice from it"
    if scene.speech[finding.end :].sum() * scene.hop_s > _OTHER_SPEECH_S:
        return "noise hides the end: voice activity continues after it"
    other = _search(scene, scene.doubtful)
    weak = finding.weak_after_end
    apart = weak if other is None else max(weak, abs(finding.end - other.end))
    apart_s = scene.hop_s * apart
    if apart_s > _DOUBT_S:
        return f"noise hides the end: it may be off by {1000 * apart_s:.0f} ms"
    return ""


def _search(scene: Scene, guess: NDArray[np.bool_]) -> _Finding | None:
    """Find the boundaries, given an initial background estimate; None if nothing exceeds the background."""
    quiet = guess if scene.clean else _background_frames(scene, guess)
    backgrounds = [
        Background(levels, quiet, scale, floor_db=scene.floor_db)
        for levels, scale in zip(scene.levels_db, SCALES, strict=True)
    ]
    # Without noise, the finest scale suffices: it finds the weakest sounds, with the sharpest boundaries.
    used = backgrounds[:1] if scene.clean else backgrounds
    sounds = [_own(scene, background, scale) for scale, background in enumerate(used)]
    if not any(sounds):
        return None
    frames = len(quiet)
    mirrored = [
        [replace(sound, start=frames - sound.end, end=frames - sound.start) for sound in reversed(found)]
        for found in sounds
    ]
    raised = quiet if scene.clean else backgrounds[0].raised(scene.levels_db[0], quiet)
    end = _last_frame(scene.power, quiet, raised, sounds)
    return _Finding(
        start=frames - _last_frame(scene.power[::-1], quiet[::-1], raised[::-1], mirrored),
        end=end,
        weak_after_end=0 if scene.clean else _weak_after(backgrounds, end, round(_FAR_S / scene.hop_s)),
        limit_db=-DEPTH_DB if scene.clean else _limit_db(scene, quiet, backgrounds),
    )


def _weak_after(backgrounds: Sequence[Background], end: int, far: int) -> int:
    """Return how many of the `far` frames after the end have evidence that is too weak for detection."""
    return max(
        (
            sound.end - _LATE_FRAMES[scale] - end
            for scale, doubtful in _DOUBTFUL.items()
            for sound in backgrounds[scale].sounds(_PAUSE_NOISY)
            if sound.significance > doubtful and sound.end > end and sound.start < end + far
        ),
        default=0,
    )


def _background_frames(scene: Scene, guess: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find the frames that contain only background, starting from an initial estimate."""
    quiet = guess
    for done in range(_ROUNDS):
        heard = np.zeros(len(quiet), bool)
        for scale in _STEADY_SCALES:
            wary = scene.aware and done < _ROUNDS // 2
            background = Background(
                scene.levels_db[scale], quiet, SCALES[scale], floor_db=scene.floor_db, wary=wary
            )
            for sound in _own(scene, background, scale):
                heard[sound.start : sound.end] = True
        rest = ~widened(heard, 8) & (scene.total_db > -DEPTH_DB)
        if rest.sum() < FEWEST_QUIET:
            break
        quiet = rest
    return quiet


def _own(scene: Scene, background: Background, scale: int) -> list[SoundSegment]:
    sounds = background.sounds(_PAUSE_CLEAN if scene.clean else _PAUSE_NOISY)
    if not sounds:
        return []
    reliable = scene.clean or scene.aware
    least = _CLICK_FRAMES + SCALES[scale].frames - 1
    loudest = max(sound.score for sound in sounds)
    kept = [
        reliable
        and sound.significance > (_SIGNIFICANT / 2 if sound.end - sound.start >= least else _SIGNIFICANT)
        and bool(scene.speech[sound.start : sound.end].mean() > _SPEECH_SHARE)
        for sound in sounds
    ]
    if not any(kept):
        kept = [sound.score == loudest for sound in sounds]
    # search from the voice outwards in both directions
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    for order, step in ((range(last + 1, len(sounds)), 1), (range(first - 1, -1, -1), -1)):
        near = sounds[last if step > 0 else first]
        for index in order:
            gap = sounds[index].start - near.end if step > 0 else near.start - sounds[index].end
            if _belongs(scene, sounds[index], gap, scale, loudest):
                kept[index] = True
                near = sounds[index]
    return [sound for sound, keep in zip(sounds, kept, strict=True) if keep]


def _belongs(scene: Scene, sound: SoundSegment, gap: int, scale: int, loudest: float) -> bool:
    """Return whether a sound at a distance of `gap` frames from the voice is the speaker's own.

    The sound was found at `SCALES[scale]`; `loudest` is the maximum score of all sounds.
    """
    frames = sound.end - sound.start - (SCALES[scale].frames - 1)
    peak_db = float(scene.total_db[sound.start : sound.end].max())
    near = gap <= _NEAR_FRAMES
    if gap <= _BURST_NEAR_FRAMES and frames >= _BURST_FRAMES and peak_db >= _NEAR_DB:
        dense = sound.score > _BURST_DENSITY * frames
        if dense and sound.significance > _BURST_SIGNIFICANT:
            return True
    strong = sound.score >= _STRONG_SHARE * loudest or sound.significance > _VERY_SIGNIFICANT
    if sound.significance <= _SIGNIFICANT or not (strong or scene.clean or scene.aware):
        return False
    if gap * scene.hop_s > (_FAR_S if strong or scene.clean else _FAR_WEAK_S):
        return False
    if near:
        return peak_db >= _NEAR_DB
    return frames >= _CLICK_FRAMES and (
        peak_db >= _LOUD_DB or (peak_db >= _LONG_DB and frames >= _LONG_FRAMES)
    )


def _last_frame(
    power: NDArray[np.float64],
    quiet: NDArray[np.bool_],
    raised: NDArray[np.bool_],
    sounds: list[list[SoundSegment]],
) -> int:
    """Return the frame after the last of the speaker's own `sounds`, found on each of `SCALES`.

    `quiet` marks the frames with only background, `raised` those above most of the background.
    """
    end = sounds[0][-1].end if sounds[0] else 0
    for scale in range(1, len(sounds)):
        if not sounds[scale]:
            continue
        last = sounds[scale][-1]
        about = last.end - _LATE_FRAMES[scale]
        if (
            about > end + _LATER_FRAMES[scale]
            and raised[max(end, about - _TAIL_FRAMES[scale]) : about].mean() > _TAIL_SHARES[scale]
        ):
            end = _change(power, quiet, max(last.start, end), about, _AROUND_FRAMES[scale])
    return end


def _change(power: NDArray[np.float64], quiet: NDArray[np.bool_], start: int, about: int, around: int) -> int:
    """Return the most likely end of a weak sound.

    The sound begins at `start` and ends within `around` frames of `about`. The most likely end maximises the
    sum of log likelihood ratios between the spectrum of the sound and that of the background. Power is
    assumed to be exponentially distributed.
    """
    rise = np.minimum(power / power[quiet].mean(axis=0), 30)
    first, last = max(start, about - around), min(len(power), about + around)
    end = about
    for _ in range(3):
        begin = max(start, end - 60)
        template = np.maximum(rise[begin : max(begin + 6, end - 3)].mean(axis=0), 1.02)
        ratio = np.clip(rise[first:last] * (1 - 1 / template) - np.log(template), -3, 3).sum(axis=1)
        found = first + int(np.argmax(np.concatenate(([0.0], np.cumsum(ratio)))))
        if found == end:
            break
        end = found
    return end


def _limit_db(scene: Scene, quiet: NDArray[np.bool_], backgrounds: list[Background]) -> float:
    rise_db = min(backgrounds[scale].least_rise_db() for scale in _STEADY_SCALES)
    noise = float(scene.power[quiet].sum(axis=1).mean())
    return float(10 * np.log10(noise * (10 ** (rise_db / 10) - 1) / scene.voice))


def _sharpened(samples: NDArray[np.float32], rate_hz: int, end_s: float, floor: float) -> float:
    """Return the end of the last millisecond near `end_s` whose mean square exceeds `floor`."""
    block = max(1, rate_hz // 1000)
    last = min(len(samples), round((end_s + 0.008) * rate_hz))
    blocks = min(32, last // block)
    if blocks == 0:
        return end_s
    near = samples[last - blocks * block : last].astype(np.float64).reshape(blocks, block)
    loud = np.flatnonzero((near**2).mean(axis=1) > floor)
    return (last - (blocks - 1 - int(loud[-1])) * block) / rate_hz if len(loud) else end_s
