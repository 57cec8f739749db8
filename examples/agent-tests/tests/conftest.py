import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def live_eval_base_url() -> Iterator[str]:
    """Start the agent in a separate process, so that agent and measurement do not affect each other."""
    with subprocess.Popen([sys.executable, "-m", "agent"], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        yield agent.stdout.readline().strip()
        agent.terminate()
