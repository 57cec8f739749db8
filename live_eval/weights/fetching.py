"""Download weights: resume broken transfers, and check hashes.

A file is written to ``NAME.part`` and renamed when it is complete and its hash is right, so a file under its
own name is always complete. The expected hash is the specification's; if it has none, the one recorded by the
first download; and for the first download, the one that the hub reports. A transfer is resumed only with a
hash that is known before: it shows whether the parts belong to one version.

Neither pooch 1.9 nor huggingface_hub 2.4 can do this. Both delete the partial file of a download that fails
(``stream_download``, ``_download_to_tmp_and_move``), so the 1.9 GB of emotion2vec+ start again; both follow
redirects to any host, and write all that arrives before they compare sizes. huggingface_hub compares no
hashes, and transfers of hf-xet bypass its HTTP client.

``HF_ENDPOINT`` replaces https://huggingface.co; a token in ``HF_TOKEN`` is sent to that host only, and never
without encryption, except to this machine.

A server decides neither where a file comes from nor how much is written: redirects lead only to hosts of the
same source, over https, and files that are larger together than their weights are not kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin, urlsplit

from live_eval import __version__
from live_eval.clock import Clock, SystemClock
from live_eval.errors import JudgeError, StoreLockedError, UsageError
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

__all__ = ["HUB", "FetchProgress", "fetch_weights", "published_at"]

FetchProgress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with a file's name, the number of its bytes that are here, and their total if it is known."""

_CHUNK_BYTES = 1 << 20
_CONNECT_S = 30.0
_IDLE_S = 60.0
_PAUSE_S = 1.0
_MOST_ATTEMPTS = 5
"""Attempts in a row that bring no data; an attempt that brings some restarts the count."""
_SPARE_BYTES = 64 << 20
_LARGER = 1.1
"""A specification gives the size of its weights in megabytes; its files may be so much larger."""
_MOST_REDIRECTS = 5
_SOURCES = (("huggingface.co", "hf.co"), ("github.com", "githubusercontent.com"))
"""The domains of each source that stores files at other hosts than it publishes them."""
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_SHA256 = re.compile("[0-9a-f]{64}")
_RESUME = "; the partial download is kept, and the next fetch resumes it"
_WHY = {
    401: "it needs a token: set HF_TOKEN, or download the file yourself and add it",
    403: "access denied: you may have to accept its licence on its page first, with a token in HF_TOKEN",
    404: "there is no such file any more",
}


class _InterruptedError(Exception):
    """A transfer ended early; another attempt may resume it."""


def fetch_weights(
    spec: WeightsSpec,
    *,
    again: bool = False,
    progress: FetchProgress | None = None,
    clock: Clock | None = None,
    idle_s: float = _IDLE_S,
) -> FoundWeights:
    """Download weights into the weights folder; existing files stay, and a partial download is resumed.

    Args:
        spec: The weights.
        again: Download all files again, and accept hashes that differ from the recorded ones (never from the
            specification's).
        progress: Called as data arrives.
        clock: The clock that times the pauses between attempts.
        idle_s: After so many seconds without data, a transfer is interrupted and tried again.

    Returns:
        Where they are, with their hashes checked.

    Raises:
        JudgeError: They cannot be downloaded, or have a wrong hash; the message says why.
        UsageError: The folder cannot be written, or ``HF_ENDPOINT`` is not a URL.
        StoreLockedError: Another process is downloading them.
    """
    from filelock import FileLock, Timeout

    if not again and (found := _existing(spec)) is not None:
        return found
    folder = weights_folder() / spec.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{spec.name}.lock"), timeout=0):
            recorded = {} if again else recorded_hashes(spec)
            download = _Download(progress or (lambda *_: None), clock or SystemClock(), idle_s)
            for file in spec.files:
                download.fetch(spec, file, folder, file.sha256 or recorded.get(file.name), again=again)
            write_record(spec, {file.name: folder / file.name for file in spec.files})
    except Timeout:
        raise StoreLockedError(f"{folder}: another process is fetching these weights") from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}{_RESUME}") from error
    return find_weights(spec)


def published_at(file: WeightsFile, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of a file; ``HF_ENDPOINT`` replaces the hub's address in it.

    Raises:
        UsageError: ``HF_ENDPOINT`` is not a URL.

    >>> published_at(WeightsFile(name="x", url=f"{HUB}/a/b"), {"HF_ENDPOINT": "https://mirror.example/"})
    'https://mirror.example/a/b'
    """
    endpoint = environment.get("HF_ENDPOINT", "").strip().rstrip("/")
    if not endpoint or not file.url.startswith(HUB + "/"):
        return file.url
    if not endpoint.startswith(("https://", "http://")):
        raise UsageError(f"HF_ENDPOINT: expected an address that begins with https://, got {endpoint!r}")
    return endpoint + file.url.removeprefix(HUB)


def _existing(spec: WeightsSpec) -> FoundWeights | None:
    """Return the weights if they are here and their hashes are right."""
    try:
        return find_weights(spec)
    except JudgeError:
        return None


class _Download:
    def __init__(self, progress: FetchProgress, clock: Clock, idle_s: float) -> None:
        import requests

        self._progress = progress
        self._clock = clock
        self._idle_s = idle_s
        self._session = requests.Session()
        self._session.max_redirects = _MOST_REDIRECTS

    def fetch(
        self, spec: WeightsSpec, file: WeightsFile, folder: Path, expected: str | None, *, again: bool
    ) -> None:
        """Download a file in as many attempts as it takes, unless it is here."""
        path = folder / file.name
        if not again and path.is_file() and expected in (None, file_sha256(path)):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        if expected is None:
            part.unlink(missing_ok=True)
        url, limit = published_at(file), _limit_bytes(spec, file, folder)
        reported = self._repeat(file, part, url, limit, resumes=expected is not None)
        found, wanted = file_sha256(part), expected or reported
        if wanted is not None and found != wanted:
            part.unlink()
            message = f"{mask_halves(url)}: expected SHA-256 {wanted}, got a file with {found}: not kept"
            if expected is not None and file.sha256 is None:
                message += f"; if a new version was published: live-eval weights fetch {spec.name} --again"
            raise JudgeError(message)
        part.replace(path)

    def _repeat(self, file: WeightsFile, part: Path, url: str, limit: int, *, resumes: bool) -> str | None:
        """Attempt the download until it is complete; return the hash that the hub reports, if it does."""
        failures = 0
        while True:
            before = _size(part)
            try:
                return self._attempt(file, part, url, limit)
            except _InterruptedError as error:
                if not resumes:
                    part.unlink(missing_ok=True)
                here = _size(part)
                failures = 1 if here > before else failures + 1
                if failures >= _MOST_ATTEMPTS:
                    raise JudgeError(f"{mask_halves(url)}: {error}{_RESUME if here else ''}") from error
            pause_ns = round(_PAUSE_S * 2 ** (failures - 1) * 1e9)
            asyncio.run(self._clock.sleep_until(self._clock.now_ns() + pause_ns))

    def _attempt(self, file: WeightsFile, part: Path, url: str, limit: int) -> str | None:
        """Download the missing part of a file; return the hash that the hub reports, if it does.

        Raises:
            _InterruptedError: The transfer ended early.
            JudgeError: The file cannot be downloaded.
        """
        import urllib3

        here = _size(part)
        headers = {"Accept-Encoding": "identity", "User-Agent": f"live-eval/{__version__}"}
        token = os.environ.get("HF_TOKEN", "").strip()
        private = urlsplit(url).scheme == "https" or is_loopback(urlsplit(url).hostname or "")
        if token and private and file.url.startswith(HUB + "/") and "@" not in url:
            headers["Authorization"] = f"Bearer {token}"  # requests drops it when redirected to another host
        if here:
            headers["Range"] = f"bytes={here}-"
        try:
            with self._get(file, url, headers, resuming=here > 0) as response:
                if response.status_code == 416:  # the partial download is longer than the file
                    part.unlink()
                    raise _InterruptedError("the published file is not the one that was partly downloaded")
                _check_status(response, url)
                if response.status_code == 206:
                    if not _continues(response, here):
                        part.unlink()
                        raise _InterruptedError("the server sent another part than was requested")
                else:
                    here = 0
                    part.unlink(missing_ok=True)
                self._receive(response, file, part, here, limit)
                return _reported_sha256(response)
        except urllib3.exceptions.TimeoutError as error:
            raise _InterruptedError(f"no data for {self._idle_s:g} s") from error
        except urllib3.exceptions.HTTPError as error:
            raise _InterruptedError(f"the transfer was interrupted ({type(error).__name__})") from error

    def _get(
        self, file: WeightsFile, url: str, headers: Mapping[str, str], *, resuming: bool
    ) -> requests.Response:
        import requests
        import urllib3

        try:
            return self._session.get(
                url,
                headers=headers,
                stream=True,
                timeout=(_CONNECT_S, self._idle_s),
                hooks={"response": partial(_check_redirect, file.url, url)},
            )
        except requests.Timeout as error:
            raise _InterruptedError(f"no data for {self._idle_s:g} s") from error
        except requests.ConnectionError as error:
            if resuming or not isinstance(error.args[0], urllib3.exceptions.MaxRetryError):
                raise _InterruptedError(f"the transfer was interrupted ({type(error).__name__})") from error
            raise JudgeError(
                f"{mask_halves(url)}: Cannot connect to host {urlsplit(url).netloc.rpartition('@')[2]} "
                f"({type(error.args[0].reason).__name__}). Is there a network? "
                "To use a file that you have: live-eval weights add"
            ) from error
        except requests.RequestException as error:
            what = type(error).__name__
            raise JudgeError(f"{mask_halves(url)}: expected the address of a file: {what}") from error

    def _receive(
        self, response: requests.Response, file: WeightsFile, part: Path, here: int, limit: int
    ) -> None:
        """Append the response to the `here` bytes of the partial download, up to `limit` bytes in all."""
        length = response.raw.length_remaining
        total = None if length is None else here + length
        _check_size(total or 0, limit, part, response.url)
        free = shutil.disk_usage(part.parent).free
        if total is not None and free < total - here + _SPARE_BYTES:
            raise UsageError(
                f"{part.parent}: expected room for {(total - here) / 1e6:.0f} MB, "
                f"there is {free / 1e6:.0f} MB"
            )
        self._progress(file.name, here, total)
        with part.open("ab") as content:
            # Sizes, ranges and hashes are those of the file, not of an encoding of it.
            for chunk in response.raw.stream(_CHUNK_BYTES, decode_content=False):
                here += len(chunk)
                _check_size(here, limit, part, response.url)
                content.write(chunk)
                self._progress(file.name, here, total)
        if here == 0 or (total is not None and here < total):
            raise _InterruptedError(f"the transfer was interrupted ({here} of {total} bytes)")


def _limit_bytes(spec: WeightsSpec, file: WeightsFile, folder: Path) -> int:
    """Return how large a file may be, given the other files that are already here."""
    here = sum(_size(folder / other.name) for other in spec.files if other is not file)
    return round((spec.megabytes + 1) * _LARGER * 1e6) - here


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _check_size(size: int, limit: int, part: Path, url: str) -> None:
    if size > limit:
        part.unlink(missing_ok=True)
        raise JudgeError(
            f"{mask_halves(url)}: expected a file of at most {limit / 1e6:.0f} MB, got {size / 1e6:.0f} MB "
            "or more: not kept"
        )


def _check_redirect(published: str, url: str, response: requests.Response, **_: object) -> None:
    """Raise if the response leads away from the source of a file, or from https.

    Args:
        published: Where the file is published.
        url: Where it was requested: there, or at a mirror.
        response: Any response.
    """
    if not response.is_redirect:
        return
    asked, to = urlsplit(url), urlsplit(urljoin(response.url, response.headers["Location"]))
    host = to.hostname or ""
    domains = {asked.hostname or ""}
    for source in _SOURCES:
        if any(_within(urlsplit(address).hostname or "", source) for address in (published, url)):
            domains.update(source)
    encrypted = to.scheme == "https" or (to.scheme == asked.scheme == "http" and host == asked.hostname)
    if not encrypted or not _within(host, domains):
        raise JudgeError(
            f"{mask_halves(url)}: expected a redirect over https to {' or '.join(sorted(domains))}, "
            f"got one to {to.scheme}://{host}"
        )


def _within(host: str, domains: Iterable[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _check_status(response: requests.Response, url: str) -> None:
    """Raise unless a response contains a file."""
    status = response.status_code
    if status in _TEMPORARY:
        raise _InterruptedError(f"HTTP {status} {response.reason}")
    if status not in (200, 206):
        raise JudgeError(f"{mask_halves(url)}: HTTP {status}: {_WHY.get(status, 'it cannot be downloaded')}")
    if response.headers.get("Content-Type", "").startswith("text/html"):
        raise JudgeError(
            f"{mask_halves(url)}: expected a file of weights, got a web page (a login page of the network?)"
        )


def _continues(response: requests.Response, here: int) -> bool:
    """Return whether a partial response begins where the partial download ends."""
    begins = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return begins is not None and int(begins[1]) == here


def _reported_sha256(response: requests.Response) -> str | None:
    """Return the hash of a large file that the hub reports in the redirect to its storage."""
    for answer in (*response.history, response):
        reported = answer.headers.get("X-Linked-ETag", "").strip('"')
        if _SHA256.fullmatch(reported):
            return reported
    return None
