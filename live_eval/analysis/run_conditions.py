"""Read the conditions that a run's values depend on from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from live_eval.recording import part_of, text_of
from live_eval.text.wording import counted
from live_eval.types import History

__all__ = ["RunConditions", "conditions_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """Conditions of a run; unrecorded ones are None.

    Args:
        turn_mode: Turn mode, which determines who ends the user's turns.
        prompt: Name of the system prompt of conversations.
        impairment: Network and audio impairment; empty for none.
        concurrency: Number of concurrent sessions; None for a live conversation.
        history: Source of a dialogue's earlier replies (`History`); empty for the endpoint's own.
        line: Encoding and bandwidth of a line that degrades the audio (a phone line); empty otherwise.
    """

    turn_mode: str | None
    prompt: str | None
    impairment: str
    concurrency: int | None
    line: str = ""
    history: str = ""

    @property
    def in_words(self) -> tuple[str, ...]:
        """The recorded conditions as short texts."""
        mode = f"turn mode {self.turn_mode}" if self.turn_mode else None
        sessions = counted(self.concurrency, "concurrent session") if self.concurrency is not None else None
        prompt = "no prompt" if self.prompt == "no" else f"prompt {self.prompt}" if self.prompt else None
        impaired = f"impaired: {self.impairment}" if self.impairment else None
        history = f"history {self.history}" if self.history else None
        return tuple(text for text in (mode, self.line, history, prompt, sessions, impaired) if text)


def conditions_of(manifest: Mapping[str, Any]) -> RunConditions:
    """Return the conditions in a manifest, which may be untrusted."""
    turns = part_of(part_of(manifest, "config"), "turns")
    sessions, history = turns.get("concurrency"), text_of(turns, "history") or ""
    endpoint = part_of(manifest, "endpoint")
    return RunConditions(
        turn_mode=text_of(endpoint, "turn_mode"),
        prompt=text_of(part_of(manifest, "prompt"), "name"),
        impairment=text_of(part_of(manifest, "impairment"), "spec") or "",
        concurrency=sessions if isinstance(sessions, int) and manifest.get("source") != "live" else None,
        line=text_of(endpoint, "line") or "",
        history="" if history == History.OWN else history,
    )
