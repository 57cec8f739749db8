"""Find the start and end of the speaker's own sounds in a recording, before the run.

`voice_end` is the last sample of the speaker's own sounds, including unvoiced consonants, breath, sighs and
laughter, but not background noise. ``docs/explanation/speech-boundaries.md`` describes the limits and the
accuracy of the method:

1. Levels. Power is computed in 20 bands, in 16 ms windows with a hop of 4 ms. Sound more than 42 dB below the
   voice is ignored as codec noise or reverberation.
2. Background. The first estimate uses the quietest frames outside the speech that the silero network detects;
   four passes then remove frames with the speaker's sound. A recording is clean if its quietest frames are 32
   dB below its voice.
3. Sounds. Each frame has a log likelihood ratio: some bands are raised by up to 30 dB, or there is only
   background. Ratios are summed at four time scales. All maximal scoring segments (Ruzzo and Tompa) above
   chance are candidates.
4. The speaker's sounds are those that overlap speech, and others that are significant, close and loud enough,
   and not clicks.
5. The last sample. A strong boundary is the end of the finest segment, refined to the millisecond in clean
   recordings. A weak boundary is the most likely change point between the spectra of the speaker and the
   background.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import MAX_RECORDING_S, Audio, read_audio, resample
from live_eval.errors import AudioError, FailureKind, TurnError
from live_eval.speech.boundaries._cache import BoundaryCache
from live_eval.speech.boundaries._detect import detect
from live_eval.speech.boundaries._scene import SPEECH, WINDOW_S
from live_eval.speech.recognition import Recogniser, Word
from live_eval.speech.voice_activity import speech_probabilities
from live_eval.text.wording import plain_typography
from live_eval.types import Case, SpeechBoundaries

__all__ = ["METHOD_VERSION", "BoundaryCache", "annotated_boundaries", "case_boundaries", "find_boundaries"]

METHOD_VERSION = "2"
"""Version of the method, which is raised whenever results may change."""

# The end is uncertain if the voice continues for longer than this after the last word.
_APART_S = 0.1
# Within a word, the speech probability may dip for this many 32 ms windows.
_DIP_WINDOWS = 3
_LEVEL = 0.1
_MOST_GAIN = 1_000.0
# A mix contains a clean take if their correlation reaches _ALIGNED at a lag of at most _LAG_S.
_ALIGNED = 0.3
_LAG_S = 0.002
_LENGTHS_S = 0.01
_ALIGN_RATE_HZ = 8_000
# The recogniser must find at least one of the last words of the script; this is their number.
_LAST_WORDS = 3


def find_boundaries(audio: Audio, *, words: Sequence[Word] | None = None) -> SpeechBoundaries:
    """Find the speech boundaries in a recording.

    Args:
        audio: Recording at any rate, with at least one sample.
        words: Recognised words, which separate speech from laughter and sighs at its end. Their times are too
            imprecise for a boundary. Without words, the last segment with voice activity counts as words.

    Returns:
        The boundaries; `uncertain` refers to the end, which the latencies depend on.

    Raises:
        UsageError: The weights of the voice activity network are missing.
    """
    if not np.any(audio.samples):
        return SpeechBoundaries(
            onset_ns=0,
            voice_end_ns=audio.duration_ns,
            uncertain=True,
            reason="no sound in the recording",
            version=METHOD_VERSION,
        )
    gain = min(_MOST_GAIN, _LEVEL / _loud_rms(audio))
    probabilities = speech_probabilities(Audio(np.clip(audio.samples * gain, -1, 1), audio.rate_hz))
    found = detect(audio, probabilities)
    words_end_s = _words_end_s(probabilities, words, found.voice_end_s)
    onset_s, voice_end_s = found.onset_s, found.voice_end_s
    reasons: list[str] = []
    if not found.found or not (words or np.any(probabilities > SPEECH)):
        reasons.append("no speech found")
        if found.trouble:  # the loudest segment is not a voice
            onset_s, voice_end_s, words_end_s = 0.0, len(audio.samples) / audio.rate_hz, None
    elif words is not None and not words:
        reasons.append("no words recognised")
    elif words_end_s is not None and voice_end_s - words_end_s > _APART_S:
        after_ms = 1000 * (voice_end_s - words_end_s)
        reasons.append(f"sound continues for {after_ms:.0f} ms after the last word")
    if found.trouble:
        reasons.append(found.trouble)
    return SpeechBoundaries(
        onset_ns=round(onset_s * 1e9),
        voice_end_ns=min(audio.duration_ns, round(voice_end_s * 1e9)),
        words_end_ns=None if words_end_s is None else round(words_end_s * 1e9),
        uncertain=bool(reasons),
        reason="; ".join(reasons),
        version=METHOD_VERSION,
    )


def case_boundaries(
    case: Case, audio: Audio, *, recogniser: Recogniser | None = None, cache: BoundaryCache | None = None
) -> SpeechBoundaries:
    """Return a case's boundaries: annotated, or else detected in its clean take, or else in its recording.

    Args:
        case: Case, whose clean take is used if it is as long as the recording and contained in it sample for
            sample; the rest is background. If the clean take cannot be read, the boundaries are uncertain.
        audio: Recording of the case.
        recogniser: Recogniser that separates words from the speaker's other sounds, or None.
        cache: Cache of boundaries; None to recompute them.

    Returns:
        The boundaries, with the version of the method and the recogniser used.

    Raises:
        AudioError: The recording is missing.
        TurnError: The annotated boundaries are outside the recording.
        UsageError: The weights of the voice activity network are missing.
    """
    if case.boundaries is not None:
        return annotated_boundaries(case.boundaries, audio.duration_ns)
    by = recogniser.identity if recogniser else ""
    key = cache.key(case, METHOD_VERSION, by) if cache else ""
    boundaries = cache.get(key) if cache else None
    if boundaries is None:
        boundaries = _found_boundaries(case, audio, recogniser)
        if cache:
            cache.put(key, boundaries)
    return replace(boundaries, version=METHOD_VERSION, recogniser=by)


def annotated_boundaries(boundaries: SpeechBoundaries, duration_ns: int) -> SpeechBoundaries:
    """Return annotated boundaries, clamped to the length of the recording.

    An end up to 10 ms beyond the end of the recording, due to rounding or a different sample rate, is
    clamped.

    Raises:
        TurnError: The speech begins or ends after the recording.
    """
    if boundaries.voice_end_ns > duration_ns + _LENGTHS_S * 1e9 or boundaries.onset_ns >= duration_ns:
        raise TurnError(
            FailureKind.CASE_UNUSABLE,
            f"expected the annotated speech to lie within the recording of {duration_ns / 1e6:.10g} ms, "
            f"got {boundaries.onset_ns / 1e6:.10g} to {boundaries.voice_end_ns / 1e6:.10g} ms",
        )
    if boundaries.voice_end_ns <= duration_ns:
        return boundaries
    words_end_ns = None if boundaries.words_end_ns is None else min(duration_ns, boundaries.words_end_ns)
    return replace(boundaries, voice_end_ns=duration_ns, words_end_ns=words_end_ns)


def _found_boundaries(case: Case, audio: Audio, recogniser: Recogniser | None) -> SpeechBoundaries:
    """Return the boundaries of a case's clean take or, without one, of its recording."""
    take, problem = None, ""
    if case.clean_audio_path is not None:
        try:
            # a longer file cannot be the clean take
            max_s = max(MAX_RECORDING_S, audio.duration_ns / 1e9 + 1)
            take = _aligned(read_audio(case.clean_audio_path, max_s=max_s).audio, audio)
        except AudioError as error:
            problem = f"cannot use the clean take: {error.message}"
    heard = audio if take is None else take
    words = _spoken_words(recogniser.transcribe(heard).words, case.text) if recogniser else None
    boundaries = find_boundaries(heard, words=words)
    if take is not None:
        end_ns = min(audio.duration_ns, boundaries.voice_end_ns)
        return replace(boundaries, voice_end_ns=end_ns, method="clean_take")
    if problem:
        reason = "; ".join(filter(None, (boundaries.reason, problem)))
        return replace(boundaries, uncertain=True, reason=reason)
    return boundaries


def _loud_rms(audio: Audio) -> float:
    """Return the root mean square of a recording's loudest tenth."""
    squares = np.sort(np.square(audio.samples, dtype=np.float64))
    return float(np.sqrt(squares[-max(1, len(squares) // 10) :].mean()))


def _words_end_s(
    probabilities: NDArray[np.float32], words: Sequence[Word] | None, voice_end_s: float
) -> float | None:
    """Return the end of the voice activity segment that contains the last word, or None."""
    active = np.flatnonzero(probabilities > SPEECH)
    if len(active) == 0 or (words is not None and not words):
        return None
    breaks = np.flatnonzero(np.diff(active) > _DIP_WINDOWS)
    starts_s = active[np.concatenate(([0], breaks + 1))] * WINDOW_S
    ends_s = (active[np.concatenate((breaks, [len(active) - 1]))] + 1) * WINDOW_S
    last = len(starts_s) - 1
    if words:
        last = max(0, int(np.searchsorted(starts_s, words[-1].end_ns / 1e9)) - 1)
    end_s = float(ends_s[last])
    # Voice activity has steps of 32 ms and lags in noise, so ends that are close count as equal.
    return voice_end_s if voice_end_s - end_s <= _APART_S else end_s


def _spoken_words(words: Sequence[Word], script: str | None) -> Sequence[Word]:
    """Remove words that were recognised in laughter and sighs after the end of the script."""
    if script is None:
        return words
    last = [_plain(word) for word in plain_typography(script).split() if _plain(word)][-_LAST_WORDS:]
    for count in range(len(words), 0, -1):
        if _plain(plain_typography(words[count - 1].text)) in last:
            return words[:count]
    return words


def _plain(word: str) -> str:
    return re.sub(r"[^\w']", "", word.lower())


def _aligned(take: Audio, mix: Audio) -> Audio | None:
    """Return the take if `mix` contains it sample for sample, else None."""
    if abs(take.duration_ns - mix.duration_ns) > _LENGTHS_S * 1e9:
        return None
    one, other = resample(take, _ALIGN_RATE_HZ).samples, resample(mix, _ALIGN_RATE_HZ).samples
    size = 2 * max(len(one), len(other))
    both = np.fft.irfft(np.fft.rfft(other, size) * np.conj(np.fft.rfft(one, size)), size)
    lag = round(_LAG_S * _ALIGN_RATE_HZ)
    near = np.concatenate((both[: lag + 1], both[-lag:]))
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return take if norm > 0 and float(near.max()) >= _ALIGNED * norm else None
