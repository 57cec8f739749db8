"""VES, vocal empathy: how well the delivery of a reply fits the speaker, rated by an audio model."""

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

    The model gets the reply's audio (WAV, 16 000 Hz, mono, int16, at most the first 120 s) and a description
    of the speaker's state (the cue of the recording). It rates the delivery for that state, and is asked to
    ignore the words, of which it gets no transcript. Definition and anchors are the benchmark's, in our own
    words.

    Args:
        prompt: A prompt file to use instead of ours, with the place ``{delivery}``. Empty for ours.
        speaker_audio: ``"yes"`` to send the speaker's recording too, before the reply; the benchmark only
            describes the state.

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
        """Return the request about a turn, with its audio."""
        content = [text_part(self._prompt.fill({"delivery": delivery_of(turn.case.cue)}))]
        if self._with_speaker and turn.speaker is not None:
            content += sound_part("The person", turn.speaker_at(SENT_RATE_HZ))
        content += sound_part("The reply", turn.reply_at(SENT_RATE_HZ))
        return ChatRequest(messages=[{"role": "user", "content": content}], model=AUDIO_MODEL)

    def parse(self, answer: str) -> Judgement:
        """Return the rating in an answer, with its explanation in the detail."""
        try:
            value = read_object(answer)
            return Scored(
                {"": read_rating(value, "VES_score")}, {"explanation": read_words(value, "explanation")}
            )
        except UnreadableError as error:
            return Failed(str(error))
