"""Rate with a language model how well a reply's text fits the user's words and delivery (C1 to C4)."""

from __future__ import annotations

from live_eval.judges._asking import (
    PROMPTS,
    PromptTemplate,
    UnreadableError,
    delivery_of,
    read_object,
    read_rating,
    read_words,
)
from live_eval.judges.specs.models import TEXT_MODEL
from live_eval.judges.text._reply import unreadable
from live_eval.judging import ChatRequest, Failed, JudgedTurn, Judgement, Scored, Unscored

__all__ = ["Rubric"]

_PLACES = frozenset({"topic", "spoken_text", "delivery", "reply_text"})
_NEEDED = frozenset({"delivery", "reply_text"})
_SCALES = {
    "c1": "context_fit",
    "c2": "response_naturalness",
    "c3": "colloquialism_degree",
    "c4": "speech_information_relevance",
}


class Rubric:
    """Four ratings of the reply's text from one prompt, whole numbers from 1 to 5, higher is better.

    The ratings are C1 context fit, C2 response naturalness, C3 colloquialism degree and C4 speech information
    relevance, with the benchmark's keys (EchoMind, Zhou et al., ICLR 2026) and its anchors in our own words.
    The model receives the user's words, their topic, their delivery (the recording's cue, or a statement that
    there is none) and the reply transcript, but no audio.

    A refusal, an empty reply or a reply in another language is unscored, not rated 1.

    Args:
        prompt: Path of a custom prompt file, with the placeholders ``{delivery}`` and ``{reply_text}``, and
            optionally ``{spoken_text}`` and ``{topic}``. Empty for the default.

    Raises:
        JudgeError: The prompt file cannot be used.
    """

    def __init__(self, *, prompt: str = "") -> None:
        self._prompt = PromptTemplate.load(
            prompt, default=PROMPTS / "rubric.md", places=_PLACES, needed=_NEEDED
        )

    def unscorable(self, turn: JudgedTurn) -> Unscored | None:
        """Return why the reply is not rated, or None if it is."""
        return unreadable(turn)

    def request(self, turn: JudgedTurn) -> ChatRequest:
        """Return the request for a turn."""
        case = turn.case
        text = self._prompt.fill(
            {
                "topic": case.topic,
                "spoken_text": case.text,
                "delivery": delivery_of(case.cue),
                "reply_text": turn.reply_text,
            }
        )
        return ChatRequest(messages=[{"role": "user", "content": text}], model=TEXT_MODEL)

    def parse(self, answer: str) -> Judgement:
        """Return the four ratings in a response; the detail contains their reasons."""
        try:
            value = read_object(answer)
            ratings = {name: read_rating(value, f"{scale}_score") for name, scale in _SCALES.items()}
            reasons = {name: read_words(value, f"{scale}_reason") for name, scale in _SCALES.items()}
        except UnreadableError as error:
            return Failed(str(error))
        return Scored(ratings, {"reasons": reasons})
