"""Build the wheel, install it into a fresh environment with its dependencies, and run a session.

Run with the Python version to test. Builds write into their source, so a copy is built. Arguments are passed
to ``pip install``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("live_eval", "clients", "judges", "pyproject.toml", "README.md", "LICENSE")
RUN = "run --endpoint reference --data sample --limit 2 --judges dnsmos,wer_heard,wer_spoken --out talk"
UNWANTED = shutil.ignore_patterns("__pycache__")


def build(folder: Path) -> Path:
    """Return the wheel, built in a copy of the source tree, because builds write into their source."""
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=UNWANTED)
        else:
            shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> int:
    """Return the exit status: 0 if both turns were captured and scored."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with TemporaryDirectory() as place:
        folder = Path(place)
        wheel = build(folder)
        venv.create(folder / "venv", with_pip=True)
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        pip = [scripts / "python", "-m", "pip", "install", "--quiet", *sys.argv[1:], f"{wheel}[local]"]
        subprocess.run(pip, check=True, cwd=folder, env=outside)
        live_eval = scripts / "live-eval"
        subprocess.run([live_eval, *RUN.split()], check=True, cwd=folder, env=outside)
        shown = subprocess.run(
            [live_eval, "export", "talk", "--format", "jsonl"],
            check=True, cwd=folder, env=outside, capture_output=True, text=True,
        )  # fmt: skip
        rows = [json.loads(line) for line in shown.stdout.splitlines()]
        version = ".".join(map(str, sys.version_info[:3]))
        captured = sum(row["failure"]["kind"] is None for row in rows)
        print(f"{wheel.name} on Python {version}: {captured} of {len(rows)} turns captured")
        return 0 if rows and captured == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
