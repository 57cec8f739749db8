"""The terminal's screen, drawn in a thread."""

import threading
from io import StringIO

from rich.console import Console

from live_eval.live.drawing import Drawing

MS = 1_000_000


def test_changes_are_drawn_in_a_thread_at_most_every_50_ms_and_the_last_one_always() -> None:
    output, contents, now_ns = StringIO(), [0], [0]
    drawn: list[int] = []
    threads: set[str] = set()

    class Watched(StringIO):
        def write(self, text: str) -> int:
            threads.add(threading.current_thread().name)
            return output.write(text)

    def render() -> str:
        drawn.append(contents[0])
        return f"number {contents[0]}"

    console = Console(file=Watched(), force_terminal=True, width=40, highlight=False)
    drawing = Drawing(render, console, lambda: now_ns[0])
    drawing.changed()  # not shown yet
    drawing.start()
    for ms in range(0, 200, 10):
        contents[0], now_ns[0] = ms, ms * MS
        if drawing._drawing is not None:
            drawing._drawing.result()
        drawing.changed()
    contents[0] = 195
    drawing.stop()
    assert drawn == [0, 50, 100, 150, 195]
    assert "number 50" in output.getvalue()
    assert "number 195" in output.getvalue()
    assert any(name.startswith("screen") for name in threads)


def test_a_drawing_that_is_not_shown_does_nothing() -> None:
    output = StringIO()
    drawing = Drawing(lambda: "x", Console(file=output))
    drawing.changed()
    drawing.stop()
    assert not output.getvalue().strip()
