import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from live_eval.files import atomic_text
from live_eval.run.stop_signals import StopSignals, cleaned_up


class Now:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def end_soon() -> Mock:
    return Mock()


@pytest.fixture
def stop(now: Now, end_soon: Mock) -> Iterator[StopSignals]:
    with StopSignals(now, end_soon) as signals:
        yield signals


def send(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_that_plays_nothing(
    stop: StopSignals, number: signal.Signals, end_soon: Mock
) -> None:
    with pytest.raises(KeyboardInterrupt):
        send(number)
    assert stop.requested
    end_soon.assert_not_called()


def test_a_closed_terminal_is_ignored_where_it_was_before() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as with nohup
    try:
        with StopSignals() as stop:
            send(signal.SIGHUP)
        assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_gentle_block_continues(stop: StopSignals, now: Now) -> None:
    with stop.gently():
        send()
        assert stop.requested
        now.s += 0.9
        send()  # as sent by `timeout`: one request
    send()
    now.s += 0.2
    with pytest.raises(KeyboardInterrupt):
        send()


def test_a_later_signal_ends_even_a_gentle_block(stop: StopSignals, now: Now, end_soon: Mock) -> None:
    with stop.gently():
        send(signal.SIGINT)
        now.s += 1
        with pytest.raises(KeyboardInterrupt):
            send()
    end_soon.assert_called_once()


@pytest.mark.asyncio
async def test_the_first_signal_cancels_playback(stop: StopSignals) -> None:
    reached = []
    with stop.cancelling():
        send()
        send()
        await asyncio.Event().wait()
        reached.append("end")
    assert not reached
    await asyncio.sleep(0)  # no cancellation remains pending
    with stop.cancelling():
        await asyncio.sleep(0)
        reached.append("second block")
    assert not reached


@pytest.mark.asyncio
async def test_a_signal_just_before_the_end_of_a_block_cancels_nothing_after_it(stop: StopSignals) -> None:
    with stop.cancelling():
        await asyncio.sleep(0)
        send()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stop.requested


@pytest.mark.asyncio
async def test_a_cancellation_from_elsewhere_propagates(stop: StopSignals) -> None:
    async def play() -> None:
        with stop.cancelling():
            await asyncio.Event().wait()

    task = asyncio.create_task(play())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_previous_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("for_command", [True, False])
def test_only_a_command_is_ended_after_it(
    now: Now, monkeypatch: pytest.MonkeyPatch, *, for_command: bool
) -> None:
    end_process = threading.Event()
    monkeypatch.setattr("live_eval.run.stop_signals.end_process", lambda _: end_process.set())
    with StopSignals(now, for_command=for_command, grace_s=0.1) as stop:
        with stop.gently():
            send()
        now.s += 1
        with pytest.raises(KeyboardInterrupt):
            send()
    assert end_process.wait(0.5) == for_command


def test_the_end_of_standard_input_interrupts_a_command_that_prints() -> None:
    command = (
        "from live_eval.run.stop_signals import stop_with_stdin\n"
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it\n"
        "stop_with_stdin()\n"
        "print('ready', flush=True)\n"
        "for _ in range(300): time.sleep(0.1); print('.', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.stdout.close()  # as after the death of the parent
        child.stdin.close()
        assert child.wait(10) == -signal.SIGINT


def test_a_command_that_is_ended_leaves_no_part_of_its_file(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended, cleaned_up(), atomic_text(page):
        send()
    assert ended.value.code == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
