"""Judge the preference between two spoken replies to the same case with an audio model."""

from __future__ import annotations

from live_eval.judges._asking import (
    PROMPTS,
    SENT_RATE_HZ,
    PromptTemplate,
    UnreadableError,
    delivery_of,
    read_object,
    read_words,
    sound_part,
    text_part,
)
from live_eval.judges._sound import unrateable
from live_eval.judges.specs.models import AUDIO_MODEL
from live_eval.judging import ChatRequest, Failed, JudgedTurn, Judgement, Scored, Unscored

__all__ = ["ArenaJudge"]

_PLACES = frozenset({"spoken_text", "delivery", "first_text", "second_text"})
_VERDICTS = {"first": 1.0, "second": -1.0, "tie": 0.0}


class ArenaJudge:
    """Preference between two replies: 1 for the first, -1 for the second, 0 for a tie.

    The model receives the audio of both replies (WAV, 16 000 Hz, mono, int16, at most the first 120 s), the
    user's words, their delivery and, if known, the reply transcripts. Models have an order bias, which
    `live-eval audit` measures, so judge both orders. Based on EchoMind's arena (Zhou et al., ICLR 2026),
    whose prompt is not public.

    Args:
        prompt: Path of a custom prompt file, with any of the placeholders ``{spoken_text}``,
            ``{delivery}``, ``{first_text}`` and ``{second_text}``. Empty for the default.

    Raises:
        JudgeError: The prompt file cannot be used.
    """

    def __init__(self, *, prompt: str = "") -> None:
        self._prompt = PromptTemplate.load(
            prompt, default=PROMPTS / "arena.md", places=_PLACES, needed=frozenset()
        )

    def unscorable(self, turn: JudgedTurn) -> Unscored | Failed | None:
        """Return why a reply is excluded, or None if it can be judged."""
        return unrateable(turn)

    def request(self, first: JudgedTurn, second: JudgedTurn) -> ChatRequest:
        """Return the request to compare two replies, with their audio.

        Raises:
            ValueError: The turns are not replies to the same case.
        """
        case = first.case
        if case.case_id != second.case.case_id:
            raise ValueError(
                f"expected two replies to the same case, got {case.case_id!r} and {second.case.case_id!r}"
            )
        text = self._prompt.fill(
            {
                "spoken_text": case.text,
                "delivery": delivery_of(case.cue),
                "first_text": first.reply_text,
                "second_text": second.reply_text,
            }
        )
        content = [
            text_part(text),
            *sound_part("The first reply", first.reply_at(SENT_RATE_HZ)),
            *sound_part("The second reply", second.reply_at(SENT_RATE_HZ)),
        ]
        return ChatRequest(messages=[{"role": "user", "content": content}], model=AUDIO_MODEL)

    def parse(self, answer: str) -> Judgement:
        """Return the preference in a response; the detail contains its reason."""
        try:
            value = read_object(answer)
            better = read_words(value, "better")
            if better not in _VERDICTS:
                raise UnreadableError(f'expected "first", "second" or "tie" in better, got {better[:40]!r}')
            return Scored({"": _VERDICTS[better]}, {"reason": read_words(value, "reason")})
        except UnreadableError as error:
            return Failed(str(error))
