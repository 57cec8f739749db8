"""Terminal output without secrets or untrusted control characters."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, TYPE_CHECKING, Any

from live_eval.redaction import SECRETS
from live_eval.text.wording import printable

if TYPE_CHECKING:
    from rich.console import Console


class _Screen:
    """A text stream that redacts `SECRETS` and, unless `raw` is set, replaces control characters."""

    def __init__(self, stream: IO[str], *, raw: bool = False) -> None:
        self._stream = stream
        self._raw = raw

    def write(self, text: str) -> int:
        public = SECRETS.text(text)
        self._stream.write(public if self._raw else printable(public))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> _Screen:
        """The stream, with its control characters, that rich writes to; rich defines the name."""
        return self if self._raw else _Screen(self._stream, raw=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console(*, stderr: bool = False, width: int | None = None, highlight: bool = True) -> Console:
    """Return a `rich.console.Console` that replaces control characters in the text it prints."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                # rich decodes the colours and links of text that is printed while it shows a bar.
                unlinked = style.update_link(None) if style and style.link else style
                yield Segment(text if control else printable(text), unlinked, control)

        @property
        def file(self) -> IO[str]:
            """The stream that keeps rich's control characters, also while rich redirects standard output."""
            return raw(super().file)

        @file.setter
        def file(self, new: IO[str]) -> None:
            self._file = new

    return SafeConsole(stderr=stderr, width=width, highlight=highlight)


def raw(stream: IO[str]) -> IO[str]:
    """Return the stream for data output, without replacing control characters."""
    data: IO[str] = getattr(stream, "rich_proxied_file", stream)
    return data


@contextmanager
def without_secrets() -> Iterator[None]:
    """Redact secrets on standard output and standard error, including tracebacks.

    Raises:
        SystemExit: With status 1, after printing the traceback of an unexpected error.
    """
    SECRETS.learn_environment(os.environ)
    if sys.stdout is None or sys.stderr is None:  # the shell closed the stream
        yield
        return
    out: Any = _Screen(sys.stdout)
    err: Any = _Screen(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            yield
        except Exception:
            traceback.print_exc()
            sys.exit(1)
