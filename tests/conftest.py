import gc
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

from live_eval.redaction import SECRETS

# Machines are noisy: the duration of an example must not fail a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parents[1]
ECHOMIND_DEMO = ROOT.parent / "shared" / "echomind-demo"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, since they and the imported modules are permanent."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def blocking_calls() -> BlockBuster:
    """The detector of blocking calls, built once, since building takes longer than activating."""
    calls = BlockBuster(scanned_modules=["live_eval"])
    # The garbage collector may finalise a semaphore of an ended process anywhere.
    calls.functions["os.write"].can_block_in("multiprocessing/resource_tracker.py", "_check_alive")
    calls.functions["os.write"].can_block_in("multiprocessing/resource_tracker.py", "_send")
    return calls


@pytest.fixture(autouse=True)
def blockbuster(blocking_calls: BlockBuster) -> Iterator[BlockBuster]:
    """Fail on calls from our packages that block the event loop."""
    blocking_calls.activate()
    yield blocking_calls
    blocking_calls.deactivate()


@pytest.fixture(autouse=True, scope="session")
def hangups() -> Iterator[None]:
    """Handle SIGHUP even if the tests were started by ``nohup``, which makes its children ignore it.

    Commands that tests start do not inherit the handler: a hangup ends them, as in a terminal.
    """
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True, scope="session")
def no_calibrations_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep calibrations separate from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIVE_EVAL_CALIBRATIONS", str(tmp_path_factory.mktemp("calibrations") / "kept.json"))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_listening_for_greetings() -> Iterator[None]:
    """Let the first session of each run speak immediately, without waiting seconds for a greeting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("live_eval.run.greetings.LISTEN_S", 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def permanent_objects() -> Iterator[None]:
    """Keep tests and modules out of later garbage collections, of which every run makes several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """Remove the secrets that a test has registered."""
    yield
    SECRETS.forget()


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep speech boundaries separate from those in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def echomind_demo() -> Path:
    """The EchoMind demonstration data beside the project."""
    if not (ECHOMIND_DEMO / "data_synthesis").is_dir():
        pytest.skip("the EchoMind demonstration data is not next to the project")
    return ECHOMIND_DEMO
