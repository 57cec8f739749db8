"""Draw a screen in a thread, because drawing takes milliseconds, which would delay sessions on the event
loop.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from rich.console import Console, RenderableType
from rich.live import Live

from live_eval.clock import SystemClock

__all__ = ["Drawing"]

_REFRESH_NS = 50_000_000


class Drawing:
    """Draw the terminal's screen while a conversation runs.

    Args:
        render: Returns the current contents, which must not change later; called on the caller's thread.
        console: Output console; the terminal by default.
    """

    def __init__(
        self,
        render: Callable[[], RenderableType],
        console: Console | None = None,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        self.console = console or Console()
        """The output console."""
        self._render = render
        self._display = Live(console=self.console, auto_refresh=False, screen=False)
        self._now_ns = now_ns or SystemClock().now_ns
        self._thread: ThreadPoolExecutor | None = None  # set while the screen is shown
        self._drawing: Future[None] | None = None
        self._due_ns = 0

    def start(self) -> None:
        """Show the screen."""
        self._thread = ThreadPoolExecutor(1, "screen")
        self._display.start()

    def stop(self) -> None:
        """Draw the last contents, which remain in the terminal."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
            self._draw(self._render())
        self._display.stop()

    def changed(self) -> None:
        """Draw the contents, at most every 50 ms; call this after each change."""
        if self._thread is None or (self._drawing is not None and not self._drawing.done()):
            return
        now_ns = self._now_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + _REFRESH_NS
            self._drawing = self._thread.submit(self._draw, self._render())

    def _draw(self, contents: RenderableType) -> None:
        self._display.update(contents, refresh=True)
