"""Detecting an echo of the reply in the microphone."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.live.echo_detection import RATE_HZ, EchoDetector, find_echo

SAMPLE = Path("live_eval/data/sample/data_human/audio")
SECOND = RATE_HZ


def speech(name: str) -> NDArray[np.float32]:
    pcm = resample(read_audio(SAMPLE / name).audio, RATE_HZ).int16().astype(np.float32)
    return np.resize(pcm, 6 * SECOND)


@pytest.fixture(scope="module")
def reply() -> NDArray[np.float32]:
    return speech("breath/le_102_breath_family_target.flac")


@pytest.fixture(scope="module")
def user() -> NDArray[np.float32]:
    return speech("fast/le_101_fast_work_target.flac")


def noise() -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(0, 50, 2 * SECOND).astype(np.float32)


@pytest.mark.parametrize("delay_ms", [0, 120, 900])
def test_a_quiet_echo_is_found_with_its_delay(reply: NDArray[np.float32], delay_ms: int) -> None:
    late = delay_ms * RATE_HZ // 1000
    microphone = 0.05 * reply[3 * SECOND - late : 5 * SECOND - late] + noise()
    echo = find_echo(microphone, reply[2 * SECOND : 5 * SECOND])
    assert echo is not None
    assert echo.delay_ms == delay_ms


def test_an_echo_is_found_while_the_user_speaks(
    reply: NDArray[np.float32], user: NDArray[np.float32]
) -> None:
    microphone = 0.5 * reply[3 * SECOND - 800 : 5 * SECOND - 800] + user[SECOND : 3 * SECOND] + noise()
    echo = find_echo(microphone, reply[2 * SECOND : 5 * SECOND])
    assert echo is not None
    assert echo.delay_ms == 100


def test_a_user_without_a_reply_is_not_an_echo(reply: NDArray[np.float32], user: NDArray[np.float32]) -> None:
    for begin in range(0, 2 * SECOND, SECOND // 4):
        assert find_echo(user[begin : begin + 2 * SECOND] + noise(), reply[: 3 * SECOND]) is None


@pytest.mark.parametrize(("said", "replied"), [(11_000, 0), (10_000, 6_000), (6_000, 8_000), (25_000, 8_000)])
def test_a_chance_correlation_of_two_voices_is_not_an_echo(
    reply: NDArray[np.float32], user: NDArray[np.float32], said: int, replied: int
) -> None:
    microphone, heard = user[said : said + 2 * SECOND], reply[replied : replied + 3 * SECOND]
    assert find_echo(microphone, heard) is None


def test_an_inaudible_echo_is_ignored(reply: NDArray[np.float32]) -> None:
    assert find_echo(np.round(0.005 * reply[2 * SECOND : 4 * SECOND]), reply[SECOND : 4 * SECOND]) is None


@pytest.mark.parametrize("begin", [0, 8_000, 16_000])
def test_a_similar_voice_that_pauses_while_the_reply_speaks_is_not_an_echo(
    reply: NDArray[np.float32], begin: int
) -> None:
    heard = reply[begin : begin + 3 * SECOND]
    microphone = heard[SECOND:].copy()
    assert find_echo(microphone, heard) is not None
    microphone[: len(microphone) // 2] = 0
    assert find_echo(microphone, heard) is None


def test_an_echo_is_certain_when_three_windows_without_common_audio_agree(
    reply: NDArray[np.float32],
) -> None:
    detector, reply = EchoDetector(), np.resize(reply, 8 * SECOND)
    heard = [
        detector.search(
            [reply[at - 800 : at - 800 + 2 * SECOND].astype(np.int16)],
            RATE_HZ,
            reply[at - SECOND : at + 2 * SECOND],
            at * 1_000_000_000 // SECOND,
        )
        for at in range(SECOND, 6 * SECOND, SECOND)
    ]
    assert [each is not None for each in heard] == [False] * 4 + [True]


def test_silence_has_no_echo(reply: NDArray[np.float32]) -> None:
    assert find_echo(np.zeros(2 * SECOND, np.float32), reply[: 3 * SECOND]) is None
    assert find_echo(noise(), np.zeros(3 * SECOND, np.float32)) is None
    assert EchoDetector().search([], 48_000, reply[: 3 * SECOND], 0) is None
