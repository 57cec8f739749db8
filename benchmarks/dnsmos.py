"""The judge `dnsmos` compared with the package speechmos and the bare P.835 network, in one run.

All three rate the same files alternately, in several rounds. Agreement is the maximum difference of any
output on any file. The floor is the full P.835 network on every window and nothing else: no file reading, no
P.808. The judge can be faster than the floor, since it computes the overlap of adjacent windows once.

speechmos also needs librosa and requests (`pip install librosa requests`); if they are not installed, only
the floor is measured.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import _benchmark
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from live_eval.audio import read_audio
from live_eval.judges.dnsmos import P835_FILE, RATE_HZ, Dnsmos, at_rated_rate, find_weights, rated_clip
from live_eval.judging import JudgedTurn, Scored
from live_eval.types import Case, Variant

Window: TypeAlias = NDArray[np.float32]

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "live_eval/data/sample", ROOT.parent / "shared/echomind-demo")
GROUP = 4
AIM_AGREEMENT, AIM_SPEECHMOS, AIM_FLOOR = 1e-3, 0.7, 1.15
THEIR_NAMES = {"ovrl": "ovrl_mos", "sig": "sig_mos", "bak": "bak_mos", "p808": "p808_mos"}


def replies(limit: int) -> list[Path]:
    """Return reply recordings of the sample and of EchoMind's demonstration, at most `limit` of each."""
    found: list[Path] = []
    for folder in FOLDERS:
        paths = sorted(path for path in folder.rglob("*_response.*") if path.suffix in (".wav", ".flac"))
        step = max(1, len(paths) // limit)
        found += paths[::step][:limit]
    return found


def judge_all(judge: Dnsmos, paths: list[Path]) -> list[dict[str, float]]:
    """Read and rate the files as in scoring."""
    turns = [
        JudgedTurn(
            turn_id=path.stem,
            case=Case(case_id=path.stem, script_id=path.stem, variant=Variant.TARGET, audio_path=path),
            reply=read_audio(path).audio,
        )
        for path in paths
    ]
    values = []
    for turn, judgement in zip(turns, judge.score(turns), strict=True):
        if not isinstance(judgement, Scored):
            raise SystemExit(f"{turn.turn_id}: expected a score, got {judgement}")
        values.append(dict(judgement.values))
    return values


def windows_of(paths: list[Path]) -> list[Window]:
    clips = [rated_clip(at_rated_rate(read_audio(path).audio)) for path in paths]
    return [clip.window(start) for clip in clips for start in clip.starts_s]


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--limit", type=int, default=8, help="files of each source at most (default: 8)")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is timed (default: 2)")
    arguments = parser.parse_args()

    paths = replies(arguments.limit)
    judge = Dnsmos()
    network = onnxruntime.InferenceSession(find_weights(P835_FILE), providers=["CPUExecutionProvider"])
    works: dict[str, Callable[[list[Path], list[Window]], Any]] = {
        "judge": lambda paths, _: judge_all(judge, paths),
        "floor": lambda _, windows: [network.run(None, {"input_1": window[None]}) for window in windows],
    }
    lacking = [name for name in ("librosa", "requests") if importlib.util.find_spec(name) is None]
    if lacking:
        print(f"speechmos cannot be imported without {', '.join(lacking)}: only the floor is measured")
    else:
        warnings.simplefilter("ignore")  # librosa warns about empty mel filters
        from speechmos import dnsmos as speechmos

        works["speechmos"] = lambda paths, _: [speechmos.run(str(path), RATE_HZ) for path in paths]

    judge_all(judge, paths[:1])  # warm up memory and caches
    best = dict.fromkeys(works, 0.0)
    windows_in_all = 0
    # In groups, so that other load affects all methods equally.
    for start in range(0, len(paths), GROUP):
        group = paths[start : start + GROUP]
        windows = windows_of(group)
        windows_in_all += len(windows)
        rounds = [
            {name: seconds(partial(work, group, windows)) for name, work in works.items()}
            for _ in range(arguments.rounds)
        ]
        for name in works:
            best[name] += min(times[name] for times in rounds)

    audio_s = sum(len(audio.samples) / audio.rate_hz for audio in (read_audio(path).audio for path in paths))
    print(
        f"{len(paths)} files, {audio_s:.0f} s of audio, {windows_in_all} windows; best of {arguments.rounds}"
    )
    for name, value in best.items():
        print(f"  {name:10} {value:6.2f} s, real-time factor {value / audio_s:.3f}")
    floor_ratio = best["judge"] / best["floor"]
    if "speechmos" not in best:
        print(f"dnsmos: {floor_ratio:.2f} times the P.835 network alone (aim <= {AIM_FLOOR})")
        return
    ours, theirs = judge_all(judge, paths), works["speechmos"](paths, [])
    gap = max(
        abs(values[name] - float(other[their_name]))
        for values, other in zip(ours, theirs, strict=True)
        for name, their_name in THEIR_NAMES.items()
    )
    print(f"dnsmos_agreement: {gap:.1e} MOS at most (aim <= {AIM_AGREEMENT:g})")
    print(f"dnsmos_floor: {floor_ratio:.2f} times the P.835 network alone (aim <= {AIM_FLOOR})")
    print(f"dnsmos: {best['judge'] / best['speechmos']:.2f} times speechmos (aim <= {AIM_SPEECHMOS})")


if __name__ == "__main__":
    main()
