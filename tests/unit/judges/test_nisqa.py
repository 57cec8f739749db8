"""NISQA compared with torchmetrics, which ports the authors' code: values, long replies, other weights."""

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra `torch`")

import torch

from live_eval.audio import Audio, read_audio
from live_eval.data import sample_path
from live_eval.errors import JudgeError
from live_eval.judges import nisqa
from live_eval.judges.nisqa import Nisqa
from live_eval.judges.specs import NISQA
from live_eval.judges.specs.sound import NISQA_WEIGHTS
from live_eval.judging import Scored, Unscored
from live_eval.testing.judges import check_judge, ordinary_turn, speechlike
from live_eval.weights import FOLDER_VARIABLE, add_weights
from tests.support.extras import needs

WEIGHTS = Path(__file__).resolve().parents[3].parent / "shared" / "weights" / "nisqa.tar"
pytestmark = [needs("torchmetrics", extra="torch"), needs("librosa", extra="torch")]
needs_weights = pytest.mark.skipif(
    not WEIGHTS.is_file(), reason="NISQA's weights are not next to the project"
)


@pytest.fixture(scope="module")
def judge() -> Nisqa:
    return Nisqa(weights=str(WEIGHTS))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Audio], list[float]]:
    """Return torchmetrics' own function, with the weights placed in its download folder."""
    from torchmetrics.functional.audio import nisqa

    shutil.copyfile(WEIGHTS, tmp_path / "nisqa.tar")
    monkeypatch.setattr(nisqa, "NISQA_DIR", str(tmp_path))
    nisqa._load_nisqa_model.cache_clear()

    def rate(audio: Audio) -> list[float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # librosa's, of the oldest of its dependencies
            rated = nisqa.non_intrusive_speech_quality_assessment(
                torch.from_numpy(audio.samples), audio.rate_hz
            )
        return [float(mos) for mos in rated]

    return rate


@needs_weights
@pytest.mark.slow
def test_replies_get_torchmetrics_numbers(judge: Nisqa, package: Callable[[Audio], list[float]]) -> None:
    sounds = [read_audio(path).audio for path in sorted(sample_path().rglob("*_response.flac"))[:3]]
    sounds += [speechlike(1.3, rate_hz) for rate_hz in (8_000, 16_000, 44_100, 48_000)]
    turns = [replace(ordinary_turn(), reply=sound) for sound in sounds]
    for sound, judgement in zip(sounds, judge.score(turns), strict=True):
        assert isinstance(judgement, Scored)
        ours = [judgement.values[output.name] for output in NISQA.outputs]
        assert ours == pytest.approx(package(sound), abs=1e-3), sound.rate_hz


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_the_spectrogram_is_that_of_torchmetrics(judge: Nisqa, rate_hz: int) -> None:
    from torchmetrics.functional.audio import nisqa

    sound = speechlike(1.7, rate_hz)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # librosa's, of the oldest of its dependencies
        [theirs] = nisqa._get_librosa_melspec(sound.samples[None], rate_hz, judge._settings)
    ours = judge._spectrogram(sound).numpy()
    assert ours.shape == theirs.shape
    assert abs(ours - theirs).max() < 1e-3


@needs_weights
def test_the_contract(judge: Nisqa) -> None:
    check_judge(NISQA, judge)


@pytest.mark.slow
@needs_weights
def test_a_reply_beyond_what_the_network_takes_is_rated_in_pieces(judge: Nisqa) -> None:
    [short, long] = judge.score(
        [replace(ordinary_turn(), reply=speechlike(seconds, 16_000)) for seconds in (20.0, 60.0)]
    )
    assert isinstance(short, Scored)
    assert isinstance(long, Scored)
    assert (short.detail["pieces"], long.detail["pieces"]) == (1, 2)
    assert (long.detail["rate_hz"], long.detail["full_scale_share"]) == (16_000, 0)
    assert long.values["mos"] == pytest.approx(short.values["mos"], abs=0.2)


@needs_weights
def test_the_bounds_are_those_of_the_last_layers(judge: Nisqa) -> None:
    # The pooled value is w · (g ∘ n + b) + c, or a mean of such values; n, normalised over d values, has mean
    # 0 and length √d.
    norm = judge._network.time_dependency.model.layers[-1].norm2
    with torch.inference_mode():
        for output, pool in zip(NISQA.outputs, judge._network.pool_layers, strict=True):
            last = pool.model.linear3
            weighed = last.weight[0] * norm.weight
            radius = float((weighed - weighed.mean()).norm()) * len(weighed) ** 0.5
            middle = float(last.weight[0] @ norm.bias + last.bias)
            assert output.low is not None
            assert output.high is not None
            assert output.low < middle - radius
            assert middle + radius < output.high


@needs_weights
def test_weights_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(JudgeError, match="live-eval weights fetch nisqa"):
        Nisqa()
    add_weights(NISQA_WEIGHTS, WEIGHTS)
    assert isinstance(Nisqa().score([ordinary_turn()])[0], Scored)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "nisqa.tar"
    other.write_bytes(b"other")
    with pytest.raises(JudgeError, match=r"nisqa\.tar: expected the weights nisqa with SHA-256 7ec4"):
        Nisqa(weights=str(other))
    with pytest.raises(JudgeError, match=r"gone\.tar"):
        Nisqa(weights=str(tmp_path / "gone.tar"))


@needs_weights
@pytest.mark.parametrize(("seconds", "rate_hz"), [(0.5, 8_000), (2.0, 24_000), (1.0, 44_100)])
def test_segments_are_a_twenty_fifth_of_a_second_apart(judge: Nisqa, seconds: float, rate_hz: int) -> None:
    [(padded, count)] = judge._pieces(speechlike(seconds, rate_hz))
    segments = padded[0, : int(count)]
    frames = 1 + round(seconds * rate_hz) // int(rate_hz * 0.01)
    assert segments.shape == (-(-(frames - 14) // 4), 48, 15)
    assert segments.dtype == torch.float32
    assert float(segments.max() - segments.min()) <= 80.001


@needs_weights
def test_the_segments_of_a_reply_in_pieces_are_those_of_the_whole(
    judge: Nisqa, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = speechlike(3.0, 16_000)
    [(padded, count)] = judge._pieces(sound)
    monkeypatch.setitem(judge._settings, "ms_max_segments", 30)
    pieces = judge._pieces(sound)
    assert [int(one) for _, one in pieces] == [24, 24, 24]
    parts = [segments[0, : int(one)] for segments, one in pieces]
    torch.testing.assert_close(torch.cat(parts), padded[0, : int(count)], rtol=0, atol=0)


@needs_weights
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_same_numbers(judge: Nisqa) -> None:
    turns = [replace(ordinary_turn(), reply=speechlike(seconds)) for seconds in (1.0, 2.4, 60.0)]
    there = Nisqa(weights=str(WEIGHTS), device="cuda").score(turns)
    for one, other in zip(judge.score(turns), there, strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        assert other.values == pytest.approx(one.values, abs=1e-3)


@pytest.mark.slow
@needs_weights
def test_replies_in_one_batch_get_the_same_numbers(judge: Nisqa, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [replace(ordinary_turn(), reply=speechlike(seconds)) for seconds in (1.0, 60.0, 0.1, 2.4)]
    apart = [judge.score([turn])[0] for turn in turns]
    monkeypatch.setitem(nisqa._PIECES_AT_ONCE, "cpu", 3)
    together = judge.score(turns)
    assert [type(one) for one in together] == [Scored, Scored, Unscored, Scored]
    for one, other in zip(apart, together, strict=True):
        if isinstance(one, Scored) and isinstance(other, Scored):
            assert other.values == pytest.approx(one.values, abs=1e-4)
