"""The tutorial's commands, run in order against the built-in endpoint."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.helpers import LIVE_EVAL, served
from tests.support.documentation import DOCS, shell_lines

pytest.importorskip("faster_whisper", reason="needs the extra `local`")
pytest.importorskip("hibari", reason="needs the extra `local`")
pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(900)]

# Substitutes: `make demo` without installing an environment, the built-in endpoint for OpenAI's, and the
# folder that the demo printed for RUN. More concurrent sessions and one fast judge save time.
SHELL = """
set -eu
make() { live-eval run --endpoint reference --data sample --out recordings/demo; }
live-eval() {
    [ "$*" = "show RUN" ] && set -- show recordings/demo
    [ "$1" = run ] && set -- "$@" --concurrency 10 --judges bleu
    case "$*" in *"--endpoint openai"*) set -- "$@" --base-url "$URL" ;; esac
    echo "== live-eval $*"
    "$PYTHON" -m live_eval "$@"
}
"""


def test_the_tutorial_runs_from_top_to_bottom(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    ready = r"(ws://127\.0\.0\.1:\d+/v1)"
    script = SHELL + "\n".join(shell_lines(DOCS / "tutorials/first-run.md")).replace("…", "a-key")
    with served([*LIVE_EVAL, "endpoint", "--port", "0"], ready, tmp_path) as url:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "URL": url, "PYTHON": LIVE_EVAL[0]},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("29 of 29 turns captured") == 5
    for promised in ("error bar (lag)", "voice to voice", "uncertain", "no difference shown", "scripts"):
        assert promised in done.stdout, done.stdout
