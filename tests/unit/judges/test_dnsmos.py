"""DNSMOS compared with values of the package speechmos, and with its whole network."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from live_eval.audio import Audio
from live_eval.errors import JudgeError
from live_eval.judges.dnsmos import (
    P835_FILE,
    RATE_HZ,
    WINDOW_SAMPLES,
    Dnsmos,
    find_weights,
    mel_features,
    rated_clip,
)
from live_eval.judging import Failed, JudgedTurn, Judgement, Scored, Unscored
from live_eval.testing.judges import ordinary_turn


def hum(seconds: float, rate_hz: int = RATE_HZ, gain: float = 1.0) -> Audio:
    """Syllables of a humming voice over noise that swells."""
    at = np.arange(round(seconds * rate_hz)) / rate_hz
    pitch = 2 * np.pi * (130 * at + 5 * np.sin(2 * np.pi * 0.8 * at))
    voice = sum(np.sin(k * pitch) / k for k in range(1, 20))
    swell = 0.3 + 0.3 * np.sin(2 * np.pi * 0.3 * at)
    noise = np.random.default_rng(11).normal(0, 0.1, len(at))
    sound = 0.15 * gain * (voice * np.maximum(0, np.sin(2 * np.pi * 1.9 * at)) + swell * noise)
    return Audio(np.clip(sound, -1, 1).astype(np.float32), rate_hz)


def noise(seconds: float) -> Audio:
    samples = np.random.default_rng(3).normal(0, 0.05, round(seconds * RATE_HZ))
    return Audio(samples.astype(np.float32), RATE_HZ)


SIGNALS: dict[str, Callable[[], Audio]] = {
    "repeated": lambda: hum(3.3),
    "three windows": lambda: hum(12.4),
    "windows left out": lambda: hum(18.2),
    "noise": lambda: noise(9.5),
    "clipped": lambda: hum(9.2, gain=30),
    "24 kHz": lambda: hum(9.2, 24_000),
    "8 kHz": lambda: hum(4.6, 8_000),
}

# Values of speechmos 0.0.1.1 (with librosa 0.11.0, numpy 2.4.6, onnxruntime 1.31.1): each signal was
# written to a WAV file of float32 samples at its rate and given to `speechmos.dnsmos.run(path, 16000)`.
SPEECHMOS = {
    "repeated": {"ovrl": 2.73943, "sig": 3.17530, "bak": 3.56651, "p808": 2.41702},
    "three windows": {"ovrl": 2.66568, "sig": 3.10977, "bak": 3.48080, "p808": 2.44410},
    "windows left out": {"ovrl": 2.60260, "sig": 3.06868, "bak": 3.41680, "p808": 2.44837},
    "noise": {"ovrl": 1.11605, "sig": 1.17313, "bak": 1.11424, "p808": 2.09144},
    "clipped": {"ovrl": 2.52742, "sig": 3.18053, "bak": 3.03530, "p808": 2.32592},
    "24 kHz": {"ovrl": 2.84259, "sig": 3.24428, "bak": 3.64393, "p808": 2.40284},
    "8 kHz": {"ovrl": 2.82251, "sig": 3.24445, "bak": 3.60893, "p808": 2.49948},
}

# The same librosa on `hum(9.0)`, as speechmos calls it: rows at columns 0, 1, 17, 60, 100 and 119.
LIBROSA = {
    0: [-0.95453, -0.13571, -0.05232, -0.41524, -0.32833, -0.40429],
    1: [-1.0, -0.25639, 0.28453, -0.05145, -0.31574, -0.34783],
    37: [-1.0, -0.33752, -0.13524, -0.17686, -0.29313, -0.18855],
    450: [-1.0, -0.25186, -0.12878, -0.1298, -0.06907, -0.15896],
    898: [-0.68137, 0.13746, 0.50282, 0.13329, -1.0, -0.90142],
    899: [-0.60992, 0.20891, 0.54549, 0.14913, -0.92651, -0.83457],
}
LIBROSA_MEAN, LIBROSA_DEVIATION = -0.23920535, 0.41415048


@pytest.fixture(scope="module")
def judge() -> Dnsmos:
    return Dnsmos(workers=2)


def turn(reply: Audio) -> JudgedTurn:
    return replace(ordinary_turn(), reply=reply)


def one(judge: Dnsmos, reply: Audio) -> Judgement:
    [judgement] = judge.score([turn(reply)])
    return judgement


@pytest.mark.slow
def test_gives_the_numbers_of_speechmos(judge: Dnsmos) -> None:
    judgements = judge.score([turn(make()) for make in SIGNALS.values()])
    for name, judgement in zip(SIGNALS, judgements, strict=True):
        assert isinstance(judgement, Scored), name
        assert judgement.values == pytest.approx(SPEECHMOS[name], abs=1e-3), name


def test_features_are_librosas() -> None:
    features = mel_features(hum(9.0).samples)
    assert features.shape == (900, 120)
    assert features.dtype == np.float32
    for row, values in LIBROSA.items():
        np.testing.assert_allclose(features[row, [0, 1, 17, 60, 100, 119]], values, atol=2e-4)
    assert features.mean() == pytest.approx(LIBROSA_MEAN, abs=1e-4)
    assert features.std() == pytest.approx(LIBROSA_DEVIATION, abs=1e-4)


def test_features_of_silence_are_finite() -> None:
    assert np.isfinite(mel_features(np.zeros(1600, np.float32))).all()


def uncut(windows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Rate windows with the whole P.835 network, one by one; return its speech, background and overall."""
    session = onnxruntime.InferenceSession(find_weights(P835_FILE), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"input_1": window[None]})[0] for window in windows])


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [9.01, 9.7, 13.0])
def test_the_split_network_equals_the_original(judge: Dnsmos, seconds: float) -> None:
    clip = rated_clip(hum(seconds).samples)
    whole = uncut(np.stack([clip.window(start) for start in clip.starts_s]))
    sig, bak, ovrl = (
        np.polyval(polynomial, whole[:, column]).mean()
        for column, polynomial in enumerate(
            (
                (-0.08397278, 1.22083953, 0.0052439),
                (-0.13166888, 1.60915514, -0.39604546),
                (-0.06766283, 1.11546468, 0.04602535),
            )
        )
    )
    judgement = one(judge, hum(seconds))
    assert isinstance(judgement, Scored)
    values = dict(judgement.values)
    del values["p808"]
    assert values == pytest.approx({"sig": sig, "bak": bak, "ovrl": ovrl}, abs=1e-5)


@pytest.mark.parametrize(
    ("seconds", "copies", "starts"),
    [
        (0.6, 16, [0]),
        (5.0, 2, [0]),
        (5.5, 2, [0, 1]),
        (8.0, 2, list(range(7))),
        (9.0, 2, list(range(7))),
        (9.01, 1, [0]),
        (10.99, 1, [0]),
        (11.0, 1, [0, 1]),
        (16.5, 1, list(range(7))),
        (25.0, 1, list(range(7))),
        (35.0, 1, [*range(7), 24, 25]),
    ],
)
def test_windows_are_placed_as_in_speechmos(seconds: float, copies: int, starts: list[int]) -> None:
    clip = rated_clip(np.ones(round(seconds * RATE_HZ), np.float32))
    assert (clip.copies, list(clip.starts_s)) == (copies, starts)
    assert all(len(clip.window(start)) == WINDOW_SAMPLES for start in clip.starts_s)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Audio(np.zeros(48_000, np.float32), RATE_HZ), "silent"),
        (hum(3.0, gain=1e-4), "silent"),
        (hum(0.2), "shorter than 0.5 s"),
    ],
)
def test_a_meaningless_metric_has_no_value(judge: Dnsmos, reply: Audio, reason: str) -> None:
    judgement = one(judge, reply)
    assert isinstance(judgement, Unscored)
    assert reason in judgement.reason


def test_samples_that_are_not_numbers_fail(judge: Dnsmos) -> None:
    broken = hum(1.0)
    broken.samples[7] = np.nan
    assert isinstance(one(judge, broken), Failed)


def test_the_detail_contains_the_evidence(judge: Dnsmos) -> None:
    judgement = one(judge, SIGNALS["clipped"]())
    assert isinstance(judgement, Scored)
    assert judgement.detail["windows"] == 1
    assert judgement.detail["rate_hz"] == RATE_HZ
    assert judgement.detail["full_scale_share"] > 0.1
    assert len(judgement.detail["sha256"]["sig_bak_ovr.onnx"]) == 64


@pytest.mark.slow
def test_more_workers_give_the_same_numbers() -> None:
    reply = hum(12.0)
    alone, many = one(Dnsmos(workers=1), reply), one(Dnsmos(workers=5), reply)
    assert isinstance(alone, Scored)
    assert isinstance(many, Scored)
    assert alone.values == pytest.approx(many.values, abs=1e-6)


def test_the_windows_of_five_minutes() -> None:
    clip = rated_clip(np.ones(300 * RATE_HZ, np.float32))
    assert len(clip.starts_s) == 291 - 21
    assert clip.starts_s[-1] == 290


@pytest.mark.parametrize("change", ["absent", "other"])
def test_weights_that_are_not_ours_are_refused(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = find_weights(P835_FILE).parent
    package = tmp_path / "speechmos"
    shutil.copytree(folder, package / folder.name)
    (package / "__init__.py").touch()
    p808 = package / folder.name / "model_v8.onnx"
    if change == "absent":
        p808.unlink()
    else:
        p808.write_bytes(p808.read_bytes() + b"\0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        JudgeError, match=r"model_v8\.onnx: expected|cannot read the weights at .*model_v8\.onnx"
    ):
        Dnsmos()


def test_missing_weights_are_reported_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(JudgeError, match="pip install speechmos"):
        find_weights(P835_FILE)
