"""Install packages into this environment: with uv, which is several times faster than pip, or else with pip.

Usage: ``python scripts/install.py ARGUMENT…``, with the arguments of ``pip install``. uv is downloaded unless
it is installed. It does not read pip's settings, so pip's index, constraints and certificate are passed
on. If uv fails, pip takes over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
INSTALL = (*PIP, "install", "--quiet", "--no-compile")
SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "constraint": "UV_CONSTRAINT",
    "cert": "SSL_CERT_FILE",
}
"""Variable of uv by setting of pip.

Extra indexes are omitted: for a version that several indexes have, uv uses only the wheels of one of them.
"""


def uv_settings(pip_settings: Iterable[str], arguments: Sequence[str] = ()) -> dict[str, str]:
    """Return uv's environment variables for lines of ``pip config list``.

    Versions with hashes need no constraints, and uv refuses constraints without hashes next to them.
    """
    found = {}
    for line in pip_settings:
        key, _, value = line.partition("=")
        variable = SETTINGS.get(key.rpartition(".")[2])
        if variable and not (variable == "UV_CONSTRAINT" and "--require-hashes" in arguments):
            found[variable] = value.strip("'\"")
    return found


def find_uv(folder: str) -> str | None:
    """Return uv's path, or None; uv is downloaded to `folder` unless it is installed."""
    if installed := shutil.which("uv"):
        return installed
    subprocess.run([*INSTALL, "--target", folder, "uv"], capture_output=True)
    return shutil.which("uv", path=Path(folder) / "bin")


def main(arguments: Sequence[str]) -> int:
    """Install, and return the exit status."""
    with TemporaryDirectory() as folder:
        if uv := find_uv(folder):
            listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True).stdout
            settings = uv_settings(listed.splitlines(), arguments)
            environment = {**os.environ, "UV_HTTP_RETRIES": "1", **settings}
            command = [uv, "pip", "install", "--quiet", "--python", sys.executable, *arguments]
            if subprocess.run(command, env=environment, capture_output=True).returncode == 0:
                return 0
    return subprocess.run([*INSTALL, *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
