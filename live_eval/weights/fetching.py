"""Download weights and other published files: resume broken transfers, and check hashes.

A file is written to ``NAME.part`` and renamed when it is complete and its hash is correct. The expected hash
is that of the specification or the record, or for a first download, that of the hub. A transfer is resumed
only if its hash is known in advance, because the hash shows whether the parts belong to the same version.

``HF_ENDPOINT`` replaces https://huggingface.co. A token in ``HF_TOKEN`` is sent only to that host, and never
without encryption, except on this machine. Redirects are followed only to hosts of the same source, over
https. Files that exceed the size of their weights are discarded.
"""

# Neither pooch 1.9 nor huggingface_hub 2.4 can replace this. Both delete the partial file of a failed
# download (`stream_download`, `_download_to_tmp_and_move`), so the 1.9 GB of emotion2vec+ would start
# over, and both write all received data before they compare sizes. A requests hook could check the
# redirects that pooch follows; hf-xet transfers bypass the HTTP client of huggingface_hub, which does not
# check SHA-256.

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin, urlsplit

from live_eval import __version__
from live_eval.clock import Clock, SystemClock
from live_eval.errors import JudgeError, LiveEvalError, StoreLockedError, UsageError
from live_eval.http.hosts import is_loopback
from live_eval.redaction import mask_halves
from live_eval.weights import (
    HUB,
    FoundWeights,
    WeightsFile,
    WeightsSpec,
    file_sha256,
    find_weights,
    recorded_hashes,
    weights_folder,
    write_record,
)

if TYPE_CHECKING:
    import requests

__all__ = [
    "HUB",
    "MOST_REDIRECTS",
    "Download",
    "FetchProgress",
    "check_redirect",
    "fetch_weights",
    "published_at",
]

FetchProgress: TypeAlias = Callable[[str, int, int | None], None]
"""Callback for a file's name, the number of bytes present, and the total number (None if unknown)."""

_CHUNK_BYTES = 1 << 20
_CONNECT_S = 30.0
_IDLE_S = 60.0
_PAUSE_S = 1.0
_MOST_ATTEMPTS = 5  # consecutive attempts that receive no data
_SPARE_BYTES = 64 << 20
_MARGIN = 1.1  # a specification rounds the size of its weights to whole megabytes
MOST_REDIRECTS = 5
"""Maximum number of redirects that a session of `Download` may follow."""

# The storage domains of each source that stores its files on other hosts.
_SOURCES = (("huggingface.co", "hf.co"), ("github.com", "githubusercontent.com"))
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_SHA256 = re.compile("[0-9a-f]{64}")
_RESUME = "; the partial download is kept, and the next download resumes it"
_WHY = {
    401: "a token is required: set HF_TOKEN, or download the file yourself and add it",
    403: "access denied: you may have to accept the licence on the model's page first, and set HF_TOKEN",
    404: "nothing is published there any more",
}


class _InterruptedError(Exception):
    """A transfer that ended early; another attempt may resume it."""


def fetch_weights(
    spec: WeightsSpec,
    *,
    again: bool = False,
    progress: FetchProgress | None = None,
    clock: Clock | None = None,
    idle_s: float = _IDLE_S,
) -> FoundWeights:
    """Download missing weights into the weights folder, and resume partial downloads.

    Args:
        again: Whether to download all files again and accept hashes that differ from the record, but not from
            the specification.
        progress: Callback for received data.
        clock: Clock for the pauses between attempts.
        idle_s: Seconds without data after which a transfer is interrupted and retried.

    Returns:
        The downloaded weights, with their hashes checked.

    Raises:
        JudgeError: The download failed, or a file has a wrong hash. The message contains the reason.
        UsageError: The folder cannot be written, or ``HF_ENDPOINT`` is not a URL.
        StoreLockedError: Another process is downloading the weights.
    """
    import requests
    from filelock import FileLock, Timeout

    if not again and (found := _existing(spec)) is not None:
        return found
    folder = weights_folder() / spec.name
    session = requests.Session()
    session.max_redirects = MOST_REDIRECTS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{spec.name}.lock"), timeout=0):
            recorded = {} if again else recorded_hashes(spec)
            for file in spec.files:
                path, expected = folder / file.name, file.sha256 or recorded.get(file.name)
                if not again and path.is_file() and expected in (None, file_sha256(path)):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                download = Download(
                    session=session,
                    file=file,
                    url=published_at(file),
                    part=path.with_name(f"{path.name}.part"),
                    most_bytes=_most_bytes(spec, file, folder),
                    progress=progress or (lambda *_: None),
                    idle_s=idle_s,
                )
                again_hint = (
                    f"if a new version was published, run live-eval weights fetch {spec.name} --again"
                )
                download.fetch(expected, clock or SystemClock(), again_hint)
                download.part.replace(path)
            write_record(spec, {file.name: folder / file.name for file in spec.files})
    except Timeout:
        raise StoreLockedError(f"{folder}: another process is fetching these weights") from None
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}{_RESUME}") from error
    return find_weights(spec)


def published_at(file: WeightsFile, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of a file, with the hub's address replaced by ``HF_ENDPOINT``.

    Raises:
        UsageError: ``HF_ENDPOINT`` is not a URL.

    >>> published_at(WeightsFile(name="x", url=f"{HUB}/a/b"), {"HF_ENDPOINT": "https://mirror.example/"})
    'https://mirror.example/a/b'
    """
    endpoint = environment.get("HF_ENDPOINT", "").strip().rstrip("/")
    if not endpoint or not file.url.startswith(HUB + "/"):
        return file.url
    if not endpoint.startswith(("https://", "http://")):
        raise UsageError(f"HF_ENDPOINT: expected an address with https:// or http://, got {endpoint!r}")
    return endpoint + file.url.removeprefix(HUB)


def check_redirect(published: str, url: str, response: requests.Response) -> None:
    """Reject a redirect to another source, or to a URL that does not use https.

    Args:
        url: Requested URL: the published URL, or a mirror.

    Raises:
        JudgeError: The response redirects to another source, or to a URL that does not use https.
    """
    if not response.is_redirect:
        return
    asked = urlsplit(url)
    try:
        to = urlsplit(urljoin(response.url, response.headers["Location"]))
        host, _ = to.hostname or "", to.port  # reading the port validates it
    except ValueError as error:
        raise JudgeError(f"{mask_halves(url)}: invalid redirect URL: {error}") from None
    domains = {asked.hostname or ""}
    for source in _SOURCES:
        if any(_is_within(urlsplit(address).hostname or "", source) for address in (published, url)):
            domains.update(source)
    encrypted = to.scheme == "https" or (to.scheme == asked.scheme == "http" and host == asked.hostname)
    if not encrypted or not _is_within(host, domains):
        raise JudgeError(
            f"{mask_halves(url)}: expected a redirect over https to {' or '.join(sorted(domains))}, "
            f"got one to {to.scheme}://{host}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A download of one file to a ``.part`` file, which a later download can resume.

    Args:
        url: URL to download from, which may be a mirror.
        part: Path of the partial download; rename it when `fetch` returns.
        most_bytes: Maximum size; a larger file is discarded.
        idle_s: Seconds without data after which the transfer is interrupted and retried.
        what: Description of the expected file, for messages.
        instead: The command that uses an existing copy, for messages.
    """

    session: requests.Session
    file: WeightsFile
    url: str
    part: Path
    most_bytes: int
    progress: FetchProgress
    idle_s: float = _IDLE_S
    what: str = "a weights file"
    instead: str = "live-eval weights add"
    error: type[LiveEvalError] = JudgeError

    def fetch(self, expected: str | None, clock: Clock, hint: str) -> None:
        """Download the file, with retries, and check its hash.

        Args:
            expected: SHA-256 of the file. Without it, a partial download is never resumed.
            clock: Clock for the pauses between attempts.
            hint: What a wrong hash means and what to do, for messages.

        Raises:
            LiveEvalError: The download failed, of type `error`.
            UsageError: There is not enough free space.
        """
        if expected is None:
            self.part.unlink(missing_ok=True)
        failures = 0
        while True:
            before = _size(self.part)
            try:
                reported = self._attempt(before)
                break
            except _InterruptedError as error:
                if expected is None:
                    self.part.unlink(missing_ok=True)
                here = _size(self.part)
                failures = 1 if here > before else failures + 1
                if failures >= _MOST_ATTEMPTS:
                    raise self._problem(f"{error}{_RESUME if here else ''}") from error
            pause_ns = round(_PAUSE_S * 2 ** (failures - 1) * 1e9)
            asyncio.run(clock.sleep_until(clock.now_ns() + pause_ns))
        found, wanted = file_sha256(self.part), expected or reported
        if wanted is not None and found != wanted:
            self.part.unlink()
            what = f"expected SHA-256 {wanted}, got {found}; the file was discarded"
            if expected is not None and self.file.sha256 is None:
                what += f"; {hint}"
            raise self._problem(what)

    def _attempt(self, here: int) -> str | None:
        """Download the missing part of a file; return the hash that the hub reports, if any.

        Raises:
            _InterruptedError: The transfer ended early.
            JudgeError: The file cannot be downloaded.
        """
        import urllib3

        try:
            with self._request(here) as response:
                if response.status_code == 416:  # the partial download is longer than the file
                    self.part.unlink()
                    raise _InterruptedError("the published file differs from the partial download")
                self._check_status(response)
                if response.status_code == 206:
                    if not response.headers.get("Content-Range", "").startswith(f"bytes {here}-"):
                        self.part.unlink()
                        raise _InterruptedError("the server did not send the requested range")
                else:
                    here = 0
                    self.part.unlink(missing_ok=True)
                self._receive(response, here)
                return _reported_sha256(response)
        except urllib3.exceptions.TimeoutError as error:
            raise self._idle() from error
        except urllib3.exceptions.HTTPError as error:
            raise _InterruptedError(f"the transfer was interrupted ({type(error).__name__})") from error

    def _request(self, here: int) -> requests.Response:
        import requests
        import urllib3

        headers = {"Accept-Encoding": "identity", "User-Agent": f"live-eval/{__version__}"}
        token, to = os.environ.get("HF_TOKEN", "").strip(), urlsplit(self.url)
        private = to.scheme == "https" or is_loopback(to.hostname or "")
        if token and private and self.file.url.startswith(HUB + "/") and "@" not in self.url:
            # requests drops this header on a redirect to another host.
            headers["Authorization"] = f"Bearer {token}"
        if here:
            headers["Range"] = f"bytes={here}-"
        try:
            return self.session.get(
                self.url,
                headers=headers,
                stream=True,
                timeout=(_CONNECT_S, self.idle_s),
                hooks={"response": self._check_redirect},
            )
        except requests.Timeout as error:
            raise self._idle() from error
        except requests.ConnectionError as error:
            if here or not isinstance(error.args[0], urllib3.exceptions.MaxRetryError):
                raise _InterruptedError(f"the transfer was interrupted ({type(error).__name__})") from error
            raise self._problem(
                f"Cannot connect to host {to.netloc.rpartition('@')[2]} "
                f"({type(error.args[0].reason).__name__}). Check the network, or use an existing copy: "
                f"{self.instead}"
            ) from error
        except requests.RequestException as error:
            raise self._problem(f"cannot request the file: {type(error).__name__}") from error

    def _check_redirect(self, response: requests.Response, **_: object) -> None:
        check_redirect(self.file.url, self.url, response)
        if response.is_redirect:
            response.close()  # requests would read the whole body into memory

    def _check_status(self, response: requests.Response) -> None:
        status = response.status_code
        if status in _TEMPORARY:
            raise _InterruptedError(f"HTTP {status} {response.reason}")
        if status not in (200, 206):
            raise self._problem(f"HTTP {status}: {_WHY.get(status, 'the download failed')}")
        if response.headers.get("Content-Type", "").startswith("text/html"):
            raise self._problem(f"expected {self.what}, got a web page (perhaps a network's login page)")

    def _receive(self, response: requests.Response, here: int) -> None:
        """Append the response to the `here` bytes of the partial download."""
        length = response.raw.length_remaining
        total = None if length is None else here + length
        self._check_size(total or 0)
        free = shutil.disk_usage(self.part.parent).free
        if length is not None and free < length + _SPARE_BYTES:
            raise UsageError(
                f"{self.part.parent}: expected {length / 1e6:.0f} MB of free space, got {free / 1e6:.0f} MB"
            )
        self.progress(self.file.name, here, total)
        with self.part.open("ab") as content:
            # Sizes, ranges and hashes refer to the file itself, not to an encoding of it.
            for chunk in response.raw.stream(_CHUNK_BYTES, decode_content=False):
                here += len(chunk)
                self._check_size(here)
                content.write(chunk)
                self.progress(self.file.name, here, total)
        if here == 0 or (total is not None and here < total):
            raise _InterruptedError(f"the transfer was interrupted ({here} of {total} bytes)")

    def _check_size(self, size: int) -> None:
        if size > self.most_bytes:
            self.part.unlink(missing_ok=True)
            raise self._problem(
                f"expected a file of at most {self.most_bytes / 1e6:.0f} MB, "
                f"got {size / 1e6:.0f} MB or more, which was discarded"
            )

    def _idle(self) -> _InterruptedError:
        return _InterruptedError(f"no data for {self.idle_s:g} s")

    def _problem(self, what: str) -> LiveEvalError:
        return self.error(f"{mask_halves(self.url)}: {what}")


def _existing(spec: WeightsSpec) -> FoundWeights | None:
    try:
        return find_weights(spec)
    except JudgeError:
        return None


def _most_bytes(spec: WeightsSpec, file: WeightsFile, folder: Path) -> int:
    """Return the maximum size of a file, given the files that already exist."""
    here = sum(_size(folder / other.name) for other in spec.files if other is not file)
    return round((spec.megabytes + 1) * _MARGIN * 1e6) - here


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_within(host: str, domains: Iterable[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _reported_sha256(response: requests.Response) -> str | None:
    """Return the hash of a large file from the hub's redirect to its storage, or None."""
    for answer in (*response.history, response):
        reported = answer.headers.get("X-Linked-ETag", "").strip('"')
        if _SHA256.fullmatch(reported):
            return reported
    return None
