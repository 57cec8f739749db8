"""Rate vocal empathy (VES) with an audio model: how well a reply's delivery fits the speaker."""

from __future__ import annotations

from live_eval.judges._asking import (
    PROMPTS,
    SENT_RATE_HZ,
    PromptTemplate,
    UnreadableError,
    delivery_of,
    read_object,
    read_rating,
    read_words,
    sound_part,
    text_part,
)
from live_eval.judges._sound import unrateable
from live_eval.judges.specs.models import AUDIO_MODEL
from live_eval.judging import ChatRequest, Failed, JudgedTurn, Judgement, Scored, Unscored

__all__ = ["Ves"]

_PLACES = frozenset({"delivery"})


class Ves:
    """Vocal empathy, a whole number from 1 to 5, higher is better (EchoMind, Zhou et al., ICLR 2026).

    The model receives the reply's audio (WAV, 16 000 Hz, mono, int16, at most the first 120 s) and a
    description of the speaker's state (the recording's cue), but no transcript. The prompt asks how well the
    delivery suits that state, regardless of the words. The definition and anchors are the benchmark's, in our
    own words.

    Args:
        prompt: Path of a custom prompt file, with the placeholder ``{delivery}``. Empty for the default.
        speaker_audio: ``"yes"`` to send the speaker's recording before the reply; the benchmark only
            describes the speaker's state.

    Raises:
        JudgeError: The prompt file cannot be used.
    """

    def __init__(self, *, prompt: str = "", speaker_audio: str = "no") -> None:
        self._prompt = PromptTemplate.load(prompt, default=PROMPTS / "ves.md", places=_PLACES, needed=_PLACES)
        self._with_speaker = speaker_audio == "yes"

    def unscorable(self, turn: JudgedTurn) -> Unscored | Failed | None:
        """Return why the reply is not rated, or None if it is."""
        return unrateable(turn)

    def request(self, turn: JudgedTurn) -> ChatRequest:
        """Return the request for a turn, with its audio."""
        content = [text_part(self._prompt.fill({"delivery": delivery_of(turn.case.cue)}))]
        if self._with_speaker and turn.speaker is not None:
            content += sound_part("The person", turn.speaker_at(SENT_RATE_HZ))
        content += sound_part("The reply", turn.reply_at(SENT_RATE_HZ))
        return ChatRequest(messages=[{"role": "user", "content": content}], model=AUDIO_MODEL)

    def parse(self, answer: str) -> Judgement:
        """Return the rating in a response; the detail contains its explanation."""
        try:
            value = read_object(answer)
            return Scored(
                {"": read_rating(value, "VES_score")}, {"explanation": read_words(value, "explanation")}
            )
        except UnreadableError as error:
            return Failed(str(error))
