"""The judge `utmos` compared with its network's package, on random weights.

Only the weights' shapes (UTMOS22 strong) affect time and memory; the ratings here are meaningless. Agreement
is the maximum difference of any rating (MOS) from the package's rating of the single recording. Three methods
are timed alternately:

- judge: the judge's `score`, including resampling;
- network: the package's network on the same batches, padded, without masks: the cost of the computation;
- package: the package's own inference, one recording at a time.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _benchmark
import numpy as np
import torch
from _replies import turns_of
from numpy.typing import NDArray

from live_eval.audio import Audio, read_audio, resample
from live_eval.judges import utmos
from live_eval.judges.networks._torch import batches_by_length, exact_inference, padded
from live_eval.judging import LocalJudge, Scored
from tests.support.random_networks import utmos_checkpoint

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared/echomind-demo", ROOT / "live_eval/data/sample")
RATE_HZ = 16_000
AIM_AGREEMENT, AIM_PACKAGE, AIM_NETWORK = 1e-4, 1.0, 1.1


@dataclass(frozen=True)
class Contest:
    """The comparison.

    Args:
        judge: The judge.
        ours: The judge's scores of recordings in one batch, one row each.
        network: The package's network on padded samples, shape (recordings, samples).
        theirs: The package's own inference on one recording.
        most_samples: Maximum number of samples in a batch of the judge.
    """

    judge: LocalJudge
    ours: Callable[[Sequence[NDArray[np.float32]]], list[list[float]]]
    network: Callable[[torch.Tensor], Any]
    theirs: Callable[[NDArray[np.float32]], list[float]]
    most_samples: int


def replies(limit: int) -> list[Audio]:
    """Return at most `limit` reply recordings, from EchoMind's demonstration, else from the sample."""
    for folder in FOLDERS:
        paths = sorted(path for path in folder.rglob("*_response.*") if path.suffix in (".wav", ".flac"))
        if paths:
            return [read_audio(path).audio for path in paths[:: -(-len(paths) // limit)]]
    raise SystemExit("expected reply recordings beside or in the project, found none")


def of_utmos(folder: Path, device: str) -> Contest:
    from utmos_pytorch import UTMOSScoreTorch

    path = utmos_checkpoint(folder / "utmos.pt")
    judge = utmos.Utmos(weights=str(path), device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's older weight norm
        theirs = UTMOSScoreTorch(str(path), device=device)
    return Contest(
        judge=judge,
        ours=lambda sounds: [[mos] for mos in judge.rate(sounds)],
        network=lambda audio: theirs.score(audio[:, None]),
        theirs=lambda sound: theirs.score(torch.tensor(sound, device=device)).tolist(),
        most_samples=utmos._MOST_SECONDS[device] * RATE_HZ,
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def utilisation() -> list[float]:
    """Return the device's recent utilisation in %; None if it is not reported."""
    try:
        return [float(torch.cuda.utilization())]
    except ModuleNotFoundError:
        return []


def compare(name: str, contest: Contest, sounds: list[Audio], device: str, rounds: int) -> None:
    at_rate = [resample(sound, RATE_HZ).samples for sound in sounds]
    lengths = [len(sound) for sound in at_rate]
    batches = [
        [at_rate[one] for one in together] for together in batches_by_length(lengths, contest.most_samples)
    ]
    audio_s = sum(lengths) / RATE_HZ
    padded_s = sum(len(batch) * max(map(len, batch)) for batch in batches) / RATE_HZ

    def run_judge() -> None:
        # New turns, because a turn caches its resampled audio.
        judgements = list(contest.judge.score(turns_of(sounds)))
        if not all(isinstance(judgement, Scored) for judgement in judgements):
            raise SystemExit(f"{name}: expected scores, got {judgements}")

    def run_network() -> None:
        with exact_inference():
            for batch in batches:
                contest.network(padded(batch, torch.device(device))[0])

    def run_package() -> None:
        with exact_inference():
            for sound in at_rate:
                contest.theirs(sound)

    works = {"judge": run_judge, "network": run_network, "package": run_package}
    shortest = min(at_rate, key=len)
    with exact_inference():  # warm up memory and caches
        contest.ours([shortest])
        contest.theirs(shortest)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    best = dict.fromkeys(works, float("inf"))
    busy: list[float] = []
    for _ in range(rounds):
        for who, work in works.items():
            best[who] = min(best[who], seconds(work))
            if device == "cuda" and who == "judge":
                busy += utilisation()
    with exact_inference():
        theirs = np.array([contest.theirs(sound) for batch in batches for sound in batch])
    ours = np.array([row for batch in batches for row in contest.ours(batch)])

    print(f"{name} on {device}: {len(sounds)} replies, {audio_s:.0f} s; best of {rounds}")
    print(
        f"  {len(batches)} batches of {min(map(len, batches))} to {max(map(len, batches))}, "
        f"padding {padded_s / audio_s - 1:.0%}"
    )
    for who, value in best.items():
        print(f"  {who:8} {value:7.2f} s, real-time factor {value / audio_s:.4f}")
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
        in_use = f"{np.mean(busy):.0f} %" if busy else "not known without the package nvidia-ml-py"
        print(f"  at most {peak:.1f} GB of the device's memory, utilisation {in_use}")
    print(f"{name}_agreement: {np.abs(ours - theirs).max():.1e} at most (aim <= {AIM_AGREEMENT:g})")
    print(f"{name}: {best['judge'] / best['package']:.2f} times the package (aim <= {AIM_PACKAGE:g})")
    ratio = best["judge"] / best["network"]
    print(f"{name}_floor: {ratio:.2f} times the network alone (aim <= {AIM_NETWORK:g})", flush=True)


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--limit", type=int, default=12, help="replies at most (default: 12)")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is timed (default: 2)")
    arguments = parser.parse_args()

    sounds = replies(arguments.limit)
    with tempfile.TemporaryDirectory() as folder:
        contest = of_utmos(Path(folder), arguments.device)
        compare("utmos", contest, sounds, arguments.device, arguments.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  at most {peak:.1f} GB of memory, the package's network included")


if __name__ == "__main__":
    main()
