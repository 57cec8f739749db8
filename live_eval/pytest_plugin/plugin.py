"""Define the pytest fixture `live_eval`, which streams recordings to a voice endpoint.

See docs/how-to/pytest.md. Every pytest run in an environment with live-eval loads this module, so imports are
deferred until the fixture is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from live_eval.pytest_plugin.endpoint_tester import EndpointTester

__all__ = ["live_eval", "live_eval_base_url", "pytest_addoption", "pytest_report_header"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options."""
    group = parser.getgroup("live-eval", "voice endpoints (live-eval)")
    group.addoption(
        "--live-eval-endpoint",
        metavar="NAME",
        help="endpoint to test, from `live-eval endpoints`; without it, tests that use the fixture "
        "`live_eval` are skipped",
    )
    group.addoption(
        "--live-eval-base-url", metavar="URL", help="base URL of the endpoint (default: the vendor's)"
    )
    group.addoption(
        "--live-eval-run-file",
        metavar="FILE",
        type=Path,
        help="run file with further settings: model, turn detection, time limits",
    )
    group.addoption(
        "--live-eval-out",
        metavar="FOLDER",
        type=Path,
        help="folder for the recorded runs, if not a temporary one",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Show the tested endpoint in the header."""
    name = config.getoption("--live-eval-endpoint")
    return None if name is None else f"live-eval: {name}"


@pytest.fixture(scope="session")
def live_eval_base_url(pytestconfig: pytest.Config) -> str | None:
    """Return the endpoint's base URL. Override this fixture to start your agent and yield its URL."""
    url: str | None = pytestconfig.getoption("--live-eval-base-url")
    return url


@pytest.fixture(scope="session")
def _live_eval_folder(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path | None = pytestconfig.getoption("--live-eval-out")
    return tmp_path_factory.mktemp("live-eval") if folder is None else folder.absolute()


@pytest.fixture
def live_eval(request: pytest.FixtureRequest, _live_eval_folder: Path) -> EndpointTester:
    """Return an `EndpointTester`, which streams recordings to the endpoint and returns the turns.

    Paths are resolved against the folder of the test module.
    """
    endpoint: str | None = request.config.getoption("--live-eval-endpoint")
    if endpoint is None:
        pytest.skip("requires --live-eval-endpoint, the voice endpoint to test")
    from live_eval.errors import UsageError
    from live_eval.pytest_plugin.endpoint_tester import EndpointTester
    from live_eval.recording import file_stem
    from live_eval.registry import client
    from live_eval.run.run_file import read_run_file, validate

    run_file: Path | None = request.config.getoption("--live-eval-run-file")
    try:
        client(endpoint)
        settings = read_run_file(run_file) if run_file is not None else {}
        validate(settings, run_file)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return EndpointTester(
        endpoint=endpoint,
        base_url=request.getfixturevalue("live_eval_base_url"),
        folder=_live_eval_folder,
        name=file_stem(request.node.nodeid, 1),
        base_folder=request.path.parent,
        settings=settings,
    )
