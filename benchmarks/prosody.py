"""The judge `prosody`: time compared with its pitch network, and values compared with a synthetic voice.

Time: replies of the sample and of EchoMind's demonstration, if available next to the project, are judged one
at a time on a single thread, alternating with the bare pitch network on the same samples at 16 kHz.

Accuracy: the offline synthesiser computes the pitch every 12.5 ms before it generates audio, and its input is
phonemes, whose vowels are the syllables. Sentences are spoken at three speeds.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace
from typing import Any

import _benchmark
import numpy as np
from _replies import replies, seconds, turns_of
from numpy.typing import NDArray
from swift_f0 import SwiftF0

from live_eval.audio import Audio, resample
from live_eval.judges._prosody import RATE_HZ, measure
from live_eval.judges.prosody import Prosody, syllable_rate
from live_eval.judging import Scored
from live_eval.testing.judges import ordinary_turn, speechlike

AIM_NETWORK = 1.2
SPEEDS = (0.7, 1.0, 1.4)
VOWELS = frozenset("AIOQWYaæɑɒɐɔəɛɜɪʊʌᵊuieᵻ")
TRUTH_HOP_S = 0.0125
TEXTS = (
    "The train to the coast leaves at seven, so please be ready by half past six.",
    "Could you check whether the shop on the corner still sells fresh fish?",
    "We watched the storm from the porch until the lights went out.",
    "I'm so sorry to hear that. You worked very hard for it. Do you want to talk about what happened?",
    "Sure, I can help you with that. First, let me ask you a couple of questions about your apartment.",
    "That sounds absolutely wonderful! Congratulations; I hope you celebrate with everybody tonight.",
    "He says the soup needs salt, but I think it is just right.",
    "The doctor was kind, yet she did not answer any of my questions.",
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence with its true pitch every 12.5 ms (0 if unvoiced) and true number of syllables."""

    text: str
    speed: float
    audio: Audio
    pitch_hz: NDArray[np.float32]
    syllables: int


def spoken() -> list[Spoken]:
    """Synthesise the sentences, and record the synthesiser's pitch."""
    from hibari import Hibari, tts

    truths: list[NDArray[np.float32]] = []
    synth = tts.dsp.synth

    def keeping(*network_outputs: Any) -> Any:
        truths.append(network_outputs[5])
        return synth(*network_outputs)

    found = []
    tts.dsp.synth = keeping
    try:
        hibari = Hibari(threads=1)
        for text in TEXTS:
            count = sum(sound in VOWELS for sentence in hibari.phonemize(text) for sound in sentence)
            for speed in SPEEDS:
                truths.clear()
                samples = np.asarray(hibari(text, speed, 0), np.float32)
                pitch = np.concatenate(truths)
                pitch[pitch < 40] = 0
                found.append(Spoken(text, speed, Audio(samples, hibari.sample_rate), pitch, count))
    finally:
        tts.dsp.synth = synth
    return found


def measure_time(limit: int, rounds: int) -> None:
    recordings = [resample(reply, RATE_HZ) for reply in replies(limit)]
    turns = turns_of(recordings)
    judge = Prosody(workers=1)
    network = SwiftF0(threads=1, spin=False).session
    band = {"fmin": np.asarray(50, np.float32), "fmax": np.asarray(800, np.float32)}

    def run_network() -> None:
        for audio in recordings:
            network.run(["pitch", "confidence"], {"audio": audio.samples[None], **band})

    run_network()
    times = [(seconds(lambda: judge.score(turns)), seconds(run_network)) for _ in range(rounds)]
    ours, theirs = (min(column) for column in zip(*times, strict=True))
    audio_s = sum(len(audio.samples) for audio in recordings) / RATE_HZ
    print(f"{len(recordings)} replies, {audio_s:.0f} s; best of {rounds}, one thread")
    print(f"  judge    {ours:.2f} s, real-time factor {ours / audio_s:.4f}")
    print(f"  network  {theirs:.2f} s, real-time factor {theirs / audio_s:.4f}")
    print(f"prosody_time: {ours / theirs:.2f} times the network alone (aim <= {AIM_NETWORK})")


def measure_memory() -> None:
    judge = Prosody(workers=1)
    judge.score([replace(ordinary_turn(), reply=speechlike(30.0, RATE_HZ))])
    long = replace(ordinary_turn(), reply=speechlike(300.0, RATE_HZ))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert isinstance(judge.score([long])[0], Scored)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"prosody_memory: {(after - before) / 1024:.0f} MB more at most for 5 minutes than for 30 s")


def measure_truth() -> None:
    detector = SwiftF0(threads=1)
    cents: list[NDArray[np.float64]] = []
    rates: dict[float, list[float]] = {speed: [] for speed in SPEEDS}
    medians, ratios = [], []
    for case in spoken():
        audio = resample(case.audio, RATE_HZ)
        found = detector.detect(audio.samples, RATE_HZ, fmin=50, fmax=800)
        at = np.minimum((found.timestamps / TRUTH_HOP_S).round().astype(int), len(case.pitch_hz) - 1)
        both = (found.confidence >= 0.5) & (case.pitch_hz[at] > 0)
        cents.append(1200 * np.log2(found.pitch_hz[both] / case.pitch_hz[at][both]))
        measures = measure(audio, detector)
        assert measures is not None
        assert measures.pitch_hz is not None
        truth = float(np.median(case.pitch_hz[at][both]))
        medians.append(12 * np.log2(measures.pitch_hz / truth))
        rate = syllable_rate(case.text, measures)
        assert rate is not None
        assert measures.speech_s is not None
        rates[case.speed].append(rate)
        ratios.append(rate * measures.speech_s / case.syllables - 1)
    gaps = np.abs(np.concatenate(cents))
    gross = 100 * float((gaps > 300).mean())
    fine = gaps[gaps <= 300]
    print(f"{len(medians)} recordings of a synthesiser with a known pitch, speeds {SPEEDS}")
    print(f"prosody_pitch: {np.median(fine):.0f} cents off in the median")
    print(f"prosody_gross: {gross:.1f} % of voiced frames are off by more than 3 semitones")
    off = np.abs(medians)
    print(f"prosody_median: {np.median(off):.2f} semitones off in the median, {off.max():.2f} at most")
    print(f"prosody_syllables: {100 * np.mean(ratios):+.1f} % in the mean, SD {100 * np.std(ratios):.1f} %")
    for speed in SPEEDS:
        times = np.asarray(rates[speed]) / np.asarray(rates[1.0])
        how = f"{times.mean():.2f} times the plain (SD {times.std():.2f})"
        print(f"  speed {speed}: {np.mean(rates[speed]):.2f} syllables/s, {how}")


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--limit", type=int, default=30, help="replies of each source at most (default: 30)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: 5)")
    arguments = parser.parse_args()
    measure_time(arguments.limit, arguments.rounds)
    measure_memory()
    measure_truth()


if __name__ == "__main__":
    main()
