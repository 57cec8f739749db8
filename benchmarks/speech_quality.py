"""The judges `distillmos` and `nisqa` compared with their networks' packages, and their sensitivity.

Agreement is the maximum difference of any rating on any reply from the package's own inference, one reply at
a time: `distillmos` as in its README, `nisqa` by torchmetrics. The output also contains DistillMOS with the
resampler used elsewhere in live-eval. Three methods are timed alternately, a few replies at a time, so that
other load affects them equally:

- judge: the judge's `score`, including resampling and features;
- network: the network's modules on the same tensors as in the judge: the cost of the computation;
- package: the package's own inference, including resampling and features, one reply at a time.

The last table contains the ratings of known degradations (`live_eval.analysis.audit.degradations`) by
`dnsmos`, `distillmos` and `nisqa`: the mean over replies, and the number of replies with a lower rating than
the original.

NISQA needs its weights.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import _benchmark
import numpy as np
import torch
from _replies import turns_of
from numpy.typing import NDArray

from live_eval.analysis.audit.degradations import add_noise, clip, drop_frames
from live_eval.audio import Audio, read_audio, resample
from live_eval.errors import JudgeError
from live_eval.judges.distillmos import RATE_HZ, DistillMos
from live_eval.judges.dnsmos import Dnsmos
from live_eval.judges.networks._torch import exact_inference, import_torchaudio
from live_eval.judges.nisqa import Nisqa
from live_eval.judges.specs import DISTILLMOS, DNSMOS, NISQA
from live_eval.judges.specs.sound import NISQA_WEIGHTS
from live_eval.judging import JudgeSpec, LocalJudge, Scored, score_name
from live_eval.weights import find_weights

Rate: TypeAlias = Callable[[Audio], list[float]]

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "live_eval/data/sample", ROOT.parent / "shared/echomind-demo")
GROUP = 4
NISQA_FILE = ROOT.parent / "shared/weights/nisqa.tar"
AIM_AGREEMENT, AIM_NETWORK, AIM_PACKAGE = 1e-3, 1.2, 1.1
DEGRADATIONS: dict[str, Callable[[Audio], Audio]] = {
    "as it was": lambda audio: audio,
    "noise at 10 dB": lambda audio: add_noise(audio, 10),
    "noise at 0 dB": lambda audio: add_noise(audio, 0),
    "10 % of frames dropped": lambda audio: drop_frames(audio, 0.1),
    "10 % of samples clipped": lambda audio: clip(audio, 0.1),
}


@dataclass(frozen=True)
class Contest:
    """The comparison.

    Args:
        spec: The judge's specification.
        judge: The judge.
        modules: The network modules that the judge calls separately.
        package: The package's own inference.
        besides: Variants of the package's inference, by their difference; not timed.
    """

    spec: JudgeSpec
    judge: LocalJudge
    modules: Sequence[torch.nn.Module]
    package: Rate
    besides: dict[str, Rate] = field(default_factory=dict)


def replies(limit: int) -> list[Audio]:
    """Return replies of the sample and of EchoMind's demonstration, `limit` of each, evenly spaced."""
    found: list[Audio] = []
    for folder in FOLDERS:
        paths = sorted(path for path in folder.rglob("*_response.*") if path.suffix in (".wav", ".flac"))
        found += [read_audio(path).audio for path in paths[:: max(1, -(-len(paths) // limit))]]
    return found


def numbers(spec: JudgeSpec, judge: LocalJudge, sounds: Sequence[Audio]) -> NDArray[np.float64]:
    """Return the values of a judge, shape (replies, outputs)."""
    rows = []
    for judgement in judge.score(turns_of(sounds)):
        if not isinstance(judgement, Scored):
            raise SystemExit(f"{spec.name}: expected a score, got {judgement}")
        rows.append([judgement.values[output.name] for output in spec.outputs])
    return np.array(rows)


def of_distillmos(device: str) -> Contest:
    judge = DistillMos(device=device)
    torchaudio = import_torchaudio()
    from distillmos import ConvTransformerSQAModel

    with contextlib.redirect_stdout(io.StringIO()):  # suppress the printed path of the weights
        model = ConvTransformerSQAModel().eval().to(device)

    def rate(at_rate: torch.Tensor) -> list[float]:
        with exact_inference():
            return [float(model(at_rate[None].to(device)))]

    def readme(audio: Audio) -> list[float]:
        resampler = torchaudio.transforms.Resample(audio.rate_hz, RATE_HZ)
        return rate(resampler(torch.from_numpy(audio.samples)))

    def otherwise(audio: Audio) -> list[float]:
        return rate(torch.from_numpy(resample(audio, RATE_HZ).samples))

    return Contest(DISTILLMOS, judge, [judge._network], readme, {"our resampler": otherwise})


def of_nisqa(device: str, weights: str, folder: Path) -> Contest:
    judge = Nisqa(weights=weights, device=device)
    from torchmetrics.functional.audio import nisqa

    # torchmetrics would download the weights to this folder.
    found = find_weights(NISQA_WEIGHTS).path if weights == NISQA_WEIGHTS.name else Path(weights)
    shutil.copyfile(found, folder / "nisqa.tar")
    nisqa.NISQA_DIR = str(folder)

    def package(audio: Audio) -> list[float]:
        samples = torch.from_numpy(audio.samples)
        return [float(mos) for mos in nisqa.non_intrusive_speech_quality_assessment(samples, audio.rate_hz)]

    network = judge._network
    modules = [network.cnn.model, network.time_dependency, *network.pool_layers]
    return Contest(NISQA, judge, modules, package)


def calls_in(contest: Contest, sounds: Sequence[Audio]) -> list[Callable[[], Any]]:
    """Record the calls of the network's modules during scoring, for replay."""
    calls: list[Callable[[], Any]] = []

    def note(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        calls.append(partial(module, *arguments))

    handles = [module.register_forward_pre_hook(note) for module in contest.modules]
    contest.judge.score(turns_of(sounds))
    for handle in handles:
        handle.remove()
    return calls


def call_all(calls: Sequence[Callable[[], Any]], device: str) -> None:
    # As in the judges: masks are created on the default device.
    with exact_inference(), torch.device(device):
        for call in calls:
            call()


def rate_all(package: Rate, sounds: Sequence[Audio]) -> NDArray[np.float64]:
    return np.array([package(sound) for sound in sounds])


def seconds(work: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def compare(contest: Contest, sounds: Sequence[Audio], device: str, rounds: int) -> None:
    name = contest.spec.name
    audio_s = sum(len(sound.samples) / sound.rate_hz for sound in sounds)
    contest.package(sounds[0])  # warm up memory and caches
    best = {"judge": 0.0, "network": 0.0, "package": 0.0}
    # Batches of similar length, as in scoring.
    in_order = sorted(sounds, key=lambda sound: sound.duration_ns)
    for start in range(0, len(in_order), GROUP):
        group = in_order[start : start + GROUP]
        works: dict[str, Callable[[], object]] = {
            "judge": partial(numbers, contest.spec, contest.judge, group),
            "network": partial(call_all, calls_in(contest, group), device),
            "package": partial(rate_all, contest.package, group),
        }
        times = [{who: seconds(work, device) for who, work in works.items()} for _ in range(rounds)]
        for who in works:
            best[who] += min(taken[who] for taken in times)

    print(f"{name} on {device}: {len(sounds)} replies, {audio_s:.0f} s; best of {rounds}")
    for who, value in best.items():
        print(f"  {who:8} {value:7.2f} s, real-time factor {value / audio_s:.4f}")
    ours = numbers(contest.spec, contest.judge, sounds)
    for how, rate in {"": contest.package, **contest.besides}.items():
        gaps = np.abs(ours - rate_all(rate, sounds))
        if how:
            print(f"  by {how}: {gaps.max():.1e} MOS at most, {gaps.mean():.1e} on average")
        else:
            print(f"{name}_agreement: {gaps.max():.1e} MOS at most (aim <= {AIM_AGREEMENT:g})")
    ratio = best["judge"] / best["network"]
    print(f"{name}_floor: {ratio:.2f} times the network alone (aim <= {AIM_NETWORK:g})")
    print(f"{name}: {best['judge'] / best['package']:.2f} times the package (aim <= {AIM_PACKAGE:g})")


def degrade(judges: Sequence[tuple[JudgeSpec, LocalJudge]], sounds: Sequence[Audio]) -> None:
    """Print the scores for degraded replies."""
    names = [score_name(spec.name, output.name) for spec, _ in judges for output in spec.outputs]
    said = {
        title: np.concatenate(
            [numbers(spec, judge, [change(sound) for sound in sounds]) for spec, judge in judges], axis=1
        )
        for title, change in DEGRADATIONS.items()
    }
    clean = next(iter(said.values()))
    print(f"mean over {len(sounds)} replies (how many of them fell)")
    print("  " + " " * 20 + "".join(f"  {title:>23}" for title in said))
    for column, name in enumerate(names):
        cells = [
            f"{rated[:, column].mean():.2f} ({np.count_nonzero(rated[:, column] < clean[:, column])})"
            for rated in said.values()
        ]
        print(f"  {name:20}" + "".join(f"  {cell:>23}" for cell in cells))


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--limit", type=int, default=12, help="replies of each source (default: 12)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed (default: 3)")
    default = str(NISQA_FILE) if NISQA_FILE.is_file() else NISQA_WEIGHTS.name
    parser.add_argument("--nisqa", default=default, help="weights of NISQA: nisqa, or the path of nisqa.tar")
    arguments = parser.parse_args()

    warnings.simplefilter("ignore")  # librosa warns about short recordings and its dependencies
    sounds = replies(arguments.limit)
    with tempfile.TemporaryDirectory() as folder:
        contests = [of_distillmos(arguments.device)]
        try:
            contests.append(of_nisqa(arguments.device, arguments.nisqa, Path(folder)))
        except JudgeError as error:
            print(f"without nisqa: {error}")
        for contest in contests:
            compare(contest, sounds, arguments.device, arguments.rounds)
    degrade([(DNSMOS, Dnsmos()), *((contest.spec, contest.judge) for contest in contests)], sounds)


if __name__ == "__main__":
    main()
