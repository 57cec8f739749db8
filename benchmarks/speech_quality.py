"""The speech quality judges compared with their networks' packages, and their sensitivity.

Agreement is the maximum difference of any rating on any reply from the package's own inference, one reply at
a time: `dnsmos` by speechmos, `distillmos` as in its README, `nisqa` by torchmetrics, `utmos` by
utmos-pytorch on random weights, so that its ratings are meaningless (only the weights' shapes affect time and
memory). The output also contains DistillMOS with the resampler used elsewhere in live-eval. Three methods are
timed alternately, a few replies at a time, so that other load affects them equally:

- judge: the judge's `score`, including resampling and features;
- network: the network on the same tensors as in the judge: the cost of the computation. For `dnsmos`, it is
  the P.835 network on every window, without P.808; the judge can be faster, since it computes the overlap of
  adjacent windows once. For `utmos`, it is the package's network on padded batches, without masks;
- package: the package's own inference, including resampling and features, one reply at a time.

The last table contains the ratings of known degradations (`live_eval.analysis.audit.degradations`) by
`dnsmos`, `distillmos` and `nisqa`: the mean over replies, and the number of replies with a lower rating than
the original.

Judges with missing weights or packages are reported and skipped. NISQA needs its weights; speechmos needs
librosa and requests.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import resource
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import _benchmark
import numpy as np
import onnxruntime
import torch
from _replies import replies, seconds, turns_of
from numpy.typing import NDArray

from live_eval.analysis.audit.degradations import add_noise, clip, drop_frames
from live_eval.audio import Audio, resample
from live_eval.errors import JudgeError
from live_eval.judges import distillmos, dnsmos, nisqa, utmos
from live_eval.judges.networks._torch import batches_by_length, exact_inference, import_torchaudio, padded
from live_eval.judges.specs import DISTILLMOS, DNSMOS, NISQA, UTMOS
from live_eval.judges.specs.sound import NISQA_WEIGHTS
from live_eval.judging import JudgeSpec, LocalJudge, Scored, score_name
from live_eval.weights import find_weights
from tests.support.random_networks import utmos_checkpoint

Rate: TypeAlias = Callable[[Audio], list[float]]
Work: TypeAlias = Callable[[], object]

GROUP = 4
NISQA_FILE = _benchmark.ROOT.parent / "shared/weights/nisqa.tar"
AIM_AGREEMENT = 1e-3
DEGRADATIONS: dict[str, Callable[[Audio], Audio]] = {
    "as it was": lambda audio: audio,
    "noise at 10 dB": lambda audio: add_noise(audio, 10),
    "noise at 0 dB": lambda audio: add_noise(audio, 0),
    "10 % of frames dropped": lambda audio: drop_frames(audio, 0.1),
    "10 % of samples clipped": lambda audio: clip(audio, 0.1),
}


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The comparison.

    Args:
        spec: The judge's specification.
        judge: The judge.
        network: Returns the computation of the network alone for replies.
        package: The package's own inference.
        aim_network: Maximum time relative to the network.
        aim_package: Maximum time relative to the package.
        besides: Variants of the package's inference, by their difference; not timed.
    """

    spec: JudgeSpec
    judge: LocalJudge
    network: Callable[[Sequence[Audio]], Work]
    package: Rate
    aim_network: float = 1.2
    aim_package: float = 1.1
    besides: dict[str, Rate] = field(default_factory=dict)


def numbers(spec: JudgeSpec, judge: LocalJudge, sounds: Sequence[Audio]) -> NDArray[np.float64]:
    """Return the values of a judge, shape (replies, outputs)."""
    rows = []
    for judgement in judge.score(turns_of(sounds)):
        if not isinstance(judgement, Scored):
            raise SystemExit(f"{spec.name}: expected a score, got {judgement}")
        rows.append([judgement.values[output.name] for output in spec.outputs])
    return np.array(rows)


def of_dnsmos(device: str, folder: Path) -> Contest:
    lacking = [name for name in ("librosa", "requests") if importlib.util.find_spec(name) is None]
    if lacking:
        raise JudgeError(f"speechmos needs {', '.join(lacking)}")
    from speechmos import dnsmos as speechmos

    network = onnxruntime.InferenceSession(
        dnsmos.find_weights(dnsmos.P835_FILE), providers=["CPUExecutionProvider"]
    )

    def windows(sounds: Sequence[Audio]) -> Work:
        clips = [dnsmos.rated_clip(dnsmos.at_rated_rate(sound)) for sound in sounds]
        cut = [clip.window(start) for clip in clips for start in clip.starts_s]
        return lambda: [network.run(None, {"input_1": window[None]}) for window in cut]

    def package(audio: Audio) -> list[float]:
        found = speechmos.run(dnsmos.at_rated_rate(audio), dnsmos.RATE_HZ)
        return [float(found[f"{output.name}_mos"]) for output in DNSMOS.outputs]

    return Contest(
        spec=DNSMOS,
        judge=dnsmos.Dnsmos(),
        network=windows,
        package=package,
        aim_network=1.15,
        aim_package=0.7,
    )


def of_distillmos(device: str, folder: Path) -> Contest:
    judge = distillmos.DistillMos(device=device)
    torchaudio = import_torchaudio()
    from distillmos import ConvTransformerSQAModel

    with contextlib.redirect_stdout(io.StringIO()):  # suppress the printed path of the weights
        model = ConvTransformerSQAModel().eval().to(device)

    def rate(at_rate: torch.Tensor) -> list[float]:
        with exact_inference():
            return [float(model(at_rate[None].to(device)))]

    def readme(audio: Audio) -> list[float]:
        resampler = torchaudio.transforms.Resample(audio.rate_hz, distillmos.RATE_HZ)
        return rate(resampler(torch.from_numpy(audio.samples)))

    def otherwise(audio: Audio) -> list[float]:
        return rate(torch.from_numpy(resample(audio, distillmos.RATE_HZ).samples))

    return Contest(
        spec=DISTILLMOS,
        judge=judge,
        network=partial(calls_in, judge, [judge._network], device),
        package=readme,
        besides={"our resampler": otherwise},
    )


def of_nisqa(device: str, folder: Path) -> Contest:
    weights = str(NISQA_FILE) if NISQA_FILE.is_file() else NISQA_WEIGHTS.name
    judge = nisqa.Nisqa(weights=weights, device=device)
    from torchmetrics.functional.audio import nisqa as package_nisqa

    # torchmetrics would download the weights to this folder.
    found = find_weights(NISQA_WEIGHTS).path if weights == NISQA_WEIGHTS.name else NISQA_FILE
    shutil.copyfile(found, folder / "nisqa.tar")
    package_nisqa.NISQA_DIR = str(folder)

    def package(audio: Audio) -> list[float]:
        samples = torch.from_numpy(audio.samples)
        rated = package_nisqa.non_intrusive_speech_quality_assessment(samples, audio.rate_hz)
        return [float(mos) for mos in rated]

    network = judge._network
    modules = [network.cnn.model, network.time_dependency, *network.pool_layers]
    return Contest(
        spec=NISQA, judge=judge, network=partial(calls_in, judge, modules, device), package=package
    )


def of_utmos(device: str, folder: Path) -> Contest:
    from utmos_pytorch import UTMOSScoreTorch

    path = utmos_checkpoint(folder / "utmos.pt")
    judge = utmos.Utmos(weights=str(path), device=device)
    theirs = UTMOSScoreTorch(str(path), device=device)

    def batches(sounds: Sequence[Audio]) -> Work:
        at_rate = [resample(sound, utmos.RATE_HZ).samples for sound in sounds]
        most = utmos._MOST_SECONDS[device] * utmos.RATE_HZ
        made = [
            padded([at_rate[one] for one in together], torch.device(device))[0][:, None]
            for together in batches_by_length([len(each) for each in at_rate], most)
        ]

        def rate() -> None:
            with exact_inference():
                for batch in made:
                    theirs.score(batch)

        return rate

    def package(audio: Audio) -> list[float]:
        with exact_inference():
            samples = torch.tensor(resample(audio, utmos.RATE_HZ).samples, device=device)
            return [float(mos) for mos in theirs.score(samples)]

    return Contest(
        spec=UTMOS, judge=judge, network=batches, package=package, aim_network=1.1, aim_package=1.0
    )


def calls_in(
    judge: LocalJudge, modules: Sequence[torch.nn.Module], device: str, sounds: Sequence[Audio]
) -> Work:
    """Record the calls of the network's modules during scoring; return their replay."""
    calls: list[Work] = []

    def note(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        calls.append(partial(module, *arguments))

    handles = [module.register_forward_pre_hook(note) for module in modules]
    judge.score(turns_of(sounds))
    for handle in handles:
        handle.remove()

    def replay() -> None:
        # As in the judges: masks are created on the default device.
        with exact_inference(), torch.device(device):
            for call in calls:
                call()

    return replay


def rate_all(package: Rate, sounds: Sequence[Audio]) -> NDArray[np.float64]:
    return np.array([package(sound) for sound in sounds])


def on_device(work: Work, device: str) -> None:
    """Run `work` to completion, including pending GPU work."""
    work()
    if device == "cuda":
        torch.cuda.synchronize()


def compare(contest: Contest, sounds: Sequence[Audio], device: str, rounds: int) -> None:
    name = contest.spec.name
    audio_s = sum(len(sound.samples) / sound.rate_hz for sound in sounds)
    contest.package(sounds[0])  # warm up memory and caches
    numbers(contest.spec, contest.judge, sounds[:1])
    best = {"judge": 0.0, "network": 0.0, "package": 0.0}
    # Batches of similar length, as in scoring.
    in_order = sorted(sounds, key=lambda sound: sound.duration_ns)
    for start in range(0, len(in_order), GROUP):
        group = in_order[start : start + GROUP]
        works: dict[str, Work] = {
            "judge": partial(numbers, contest.spec, contest.judge, group),
            "network": contest.network(group),
            "package": partial(rate_all, contest.package, group),
        }
        times = [
            {who: seconds(partial(on_device, work, device)) for who, work in works.items()}
            for _ in range(rounds)
        ]
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
    to_network, to_package = (best["judge"] / best[who] for who in ("network", "package"))
    print(f"{name}_floor: {to_network:.2f} times the network alone (aim <= {contest.aim_network:g})")
    print(f"{name}: {to_package:.2f} times the package (aim <= {contest.aim_package:g})", flush=True)


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


CONTESTS: dict[str, Callable[[str, Path], Contest]] = {
    "dnsmos": of_dnsmos,
    "distillmos": of_distillmos,
    "nisqa": of_nisqa,
    "utmos": of_utmos,
}


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("judges", nargs="*", metavar="JUDGE", help=f"default: {', '.join(CONTESTS)}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--limit", type=int, default=12, help="replies of each source (default: 12)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed (default: 3)")
    asked = parser.parse_args()

    warnings.simplefilter("ignore")  # of librosa about short recordings, and of torch about its older parts
    sounds = replies(asked.limit)
    rated: list[tuple[JudgeSpec, LocalJudge]] = []
    with tempfile.TemporaryDirectory() as name:
        for judge in asked.judges or CONTESTS:
            try:
                contest = CONTESTS[judge](asked.device, Path(name))
            except (JudgeError, ModuleNotFoundError) as error:
                print(f"without {judge}: {error}")
                continue
            compare(contest, sounds, asked.device, asked.rounds)
            if contest.spec is not UTMOS:
                rated.append((contest.spec, contest.judge))
    if asked.device == "cuda":
        print(f"at most {torch.cuda.max_memory_allocated() / 2**30:.1f} GB of the device's memory")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB of memory")
    if rated:
        degrade(rated, sounds)


if __name__ == "__main__":
    main()
