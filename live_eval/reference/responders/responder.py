"""Reply with a fixed recording, or speak replies from scripts or a chat model."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from rapidfuzz import fuzz, process
from rapidfuzz.utils import default_process

from live_eval.audio import Audio, read_audio
from live_eval.clock import SystemClock
from live_eval.errors import LiveEvalError
from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.engine.events import FindReply
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply
from live_eval.reference.settings import ReferenceSettings
from live_eval.scoring.llm.calls import CallFailure, CallProblem, ChatEndpoint
from live_eval.scoring.llm.options import LlmSettings
from live_eval.speech.synthesis import MAX_SPEED, MIN_SPEED, Voice
from live_eval.timing import audible_onset
from live_eval.types import Case, Secret, Variant

__all__ = [
    "CascadeResponder",
    "ChatReplier",
    "FileResponder",
    "NoReplyError",
    "Replier",
    "ReplyLine",
    "Responder",
    "ScriptReplier",
    "ToneResponder",
    "choose_option",
    "says_back",
    "scripts_of",
    "unanswered",
]

NOTHING_HEARD = "I am sorry, I did not hear any words."
_SIMILAR_ENOUGH = 60.0
_JOINED_UTTERANCES = 4
_SPOKEN_REPLIES_KEPT = 64
_TONE_MS = 1000
_LEAD_MS = 20
_LLM_TIMEOUT_S = 60.0
_RETRIED = (CallProblem.CONNECTION, CallProblem.SERVER_ERROR)
_LLM_DEFAULT_PROMPT = "You are a helpful voice assistant. Answer in one to three short spoken sentences."
_SAY_BACK = re.compile(r"\bword for word\b", re.IGNORECASE)
_OPTION = re.compile(r"^\s*([A-Z])\.\s+\S", re.MULTILINE)
_FEWEST_OPTIONS = 2
# The cascade recognises words but not delivery, so neutral replies are preferred.
_PREFERENCE = (Variant.NEUTRAL, Variant.TARGET, Variant.ALTERNATIVE)


class NoReplyError(LiveEvalError):
    """Raised when no reply is available. The message contains no secrets."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Responder(Protocol):
    """Generate replies."""

    waits_for_words: bool = False
    """Whether a reply depends on the text."""

    def fixed(self, settings: ReferenceSettings) -> GeneratedReply | None:
        """Return the fixed reply, or None if replies vary."""
        return None

    def reply(self, answer: FindReply, settings: ReferenceSettings) -> AsyncGenerator[GeneratedReply]:
        """Yield the reply to a request, in pieces unless `answer.whole`.

        Raises:
            NoReplyError: There is no reply, or a later piece failed.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections."""
        return


class ToneResponder(Responder):
    """Reply with a synthetic signal whose onset is known; no models are needed."""

    def fixed(self, settings: ReferenceSettings) -> GeneratedReply:
        """Return the tone."""
        tone = calibration_reply(settings.reply_ms, pause_ms=settings.reply_pause_ms)
        return GeneratedReply("A tone.", tone, 0, "constructed")

    async def reply(self, answer: FindReply, settings: ReferenceSettings) -> AsyncGenerator[GeneratedReply]:
        """Yield the fixed reply, or its text if no audio is requested."""
        reply = self.fixed(settings)
        yield reply if answer.wants_audio else GeneratedReply(reply.text, None)


class FileResponder(ToneResponder):
    """Reply with a recording.

    Args:
        path: Path of the recording. Its text is unknown, so the transcript is empty.
        onset_sample: Index of the first audible sample, if known.

    Raises:
        AudioError: The recording cannot be read or is invalid.
    """

    def __init__(self, path: Path, onset_sample: int | None = None) -> None:
        self._reply = GeneratedReply("", read_audio(path).audio, onset_sample, "given")

    def fixed(self, settings: ReferenceSettings) -> GeneratedReply:
        """Return the recording."""
        return self._reply


# -- A cascade -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyLine:
    """A user line and its reply, with a recording if available."""

    text: str
    reply: str
    spoken: Path | None = None


class Replier(Protocol):
    """Generate reply texts."""

    async def reply(self, said: Sequence[ItemContent], instructions: str) -> ReplyLine:
        """Return the reply, or raise `NoReplyError`; the line's `text` is not used."""
        ...

    async def close(self) -> None:
        """Release connections."""
        return


class CascadeResponder(Responder):
    """Speak a replier's texts sentence by sentence with a synthetic voice.

    Args:
        replier: Source of reply texts.
        voice: Speech synthesiser; if None, the reply is its recording, if available, or else a tone.
        hears_words: Whether replies need recognised text.
        workers: Number of synthesis threads.
    """

    def __init__(self, replier: Replier, voice: Voice | None, *, hears_words: bool, workers: int = 2) -> None:
        self._replier = replier
        self._pool = ThreadPoolExecutor(workers, "voice")
        self._voice = voice
        self._spoken = lru_cache(maxsize=_SPOKEN_REPLIES_KEPT)(self._speak)
        self.waits_for_words = hears_words

    async def reply(self, answer: FindReply, settings: ReferenceSettings) -> AsyncGenerator[GeneratedReply]:
        """Yield the spoken reply."""
        line = await self._replier.reply(answer.said, answer.instructions)
        if not answer.wants_audio:
            yield GeneratedReply(line.reply, None)
            return
        loop = asyncio.get_running_loop()
        speed = min(max(answer.speed, MIN_SPEED), MAX_SPEED)
        texts = [line.reply]
        if self._voice is not None and not answer.whole:
            texts = self._voice.sentences(line.reply) or texts
        for number, text in enumerate(texts):
            try:
                audio = await loop.run_in_executor(
                    self._pool, self._spoken, text, line.spoken, speed, number == 0
                )
            except (LiveEvalError, RuntimeError, ValueError) as error:
                raise NoReplyError("voice_failed", f"cannot speak the reply: {error}") from error
            yield GeneratedReply(f" {text}" if number else text, audio, last=number == len(texts) - 1)

    def _speak(self, text: str, recording: Path | None, speed: float, first: bool) -> Audio:
        if self._voice is not None:
            spoken = self._voice.speak(text, speed=speed)
            return _without_lead(spoken) if first else spoken
        if recording is not None:
            return read_audio(recording).audio
        return calibration_reply(_TONE_MS)

    def warm_up(self) -> None:
        """Run the voice once to make the first session fast."""
        self._spoken(NOTHING_HEARD, None, 1.0, True)

    async def close(self) -> None:
        """Finish running work and stop the threads."""
        await self._replier.close()
        await asyncio.to_thread(self._pool.shutdown)


def _without_lead(spoken: Audio) -> Audio:
    """Return speech without its leading silence, which lasts 200 ms or more."""
    onset = audible_onset(spoken.int16(), spoken.rate_hz) or 0
    return Audio(spoken.samples[max(0, onset - _LEAD_MS * spoken.rate_hz // 1000) :], spoken.rate_hz)


class ScriptReplier(Replier):
    """Reply from the most similar script or, without recognition, from each script in turn.

    Only two patterns of instructions have an effect. With the phrase "word for word", the replier repeats the
    user's words. With a list of options ("A. Yes", "B. No", one per line), it picks one.

    Args:
        lines: At least one script. If several have the same text, the first is used.
    """

    def __init__(self, lines: Sequence[ReplyLine]) -> None:
        self._lines: dict[str, ReplyLine] = {}
        for line in lines:
            self._lines.setdefault(default_process(line.text), line)
        self._in_turn = 0

    async def reply(self, said: Sequence[ItemContent], instructions: str) -> ReplyLine:
        """Return the most similar script's reply, or the recognised text if no script is similar."""
        heard = _last_words(said)
        whole = heard[-1] if heard else ""
        letter = choose_option(instructions, whole)
        if letter is not None:
            return ReplyLine("", f"The answer is: {letter}")
        if says_back(instructions):
            return ReplyLine("", whole or NOTHING_HEARD)
        if heard is None:
            return self._next()
        if not heard:
            return ReplyLine("", NOTHING_HEARD)
        return await asyncio.to_thread(self._most_similar, heard)

    def _most_similar(self, heard: Sequence[str]) -> ReplyLine:
        best: tuple[float, ReplyLine] | None = None
        for text in heard:
            found = process.extractOne(
                default_process(text), self._lines.keys(), scorer=fuzz.ratio, score_cutoff=_SIMILAR_ENOUGH
            )
            if found is not None and (best is None or found[1] > best[0]):
                best = (found[1], self._lines[found[0]])
        if best is not None:
            return best[1]
        return ReplyLine("", f"I heard you say: {heard[0]} I have no script for that.")

    def _next(self) -> ReplyLine:
        lines = tuple(self._lines.values())
        self._in_turn += 1
        return lines[(self._in_turn - 1) % len(lines)]


def unanswered(said: Sequence[ItemContent]) -> list[ItemContent]:
    """Return the user's utterances since the last uninterrupted reply."""
    replies = (at for at, item in enumerate(said) if item.role is Role.ASSISTANT and not item.cut_off)
    return [item for item in said[max(replies, default=-1) + 1 :] if item.role is Role.USER]


def _last_words(said: Sequence[ItemContent]) -> list[str] | None:
    """Return the user's last utterance, alone and joined with the unanswered utterances before it.

    A pause can end a turn in mid-sentence; the user then continues and interrupts the premature reply. A
    breath or sigh after the words adds no text, but the words still need a reply.

    Returns:
        Candidate texts, shortest first; empty if there are no words, None if an utterance was not recognised.
    """
    texts: list[str] = []
    for utterance in unanswered(said):
        if utterance.text is None:
            return None
        if utterance.text.strip():
            texts.append(utterance.text.strip())
    return [" ".join(texts[-count:]) for count in range(1, min(len(texts), _JOINED_UTTERANCES) + 1)]


def scripts_of(cases: Iterable[Case]) -> list[ReplyLine]:
    """Return a data set's scripts that have a reply, neutral variants first."""
    usable = [case for case in cases if case.text and case.reference_text]
    usable.sort(key=lambda case: _PREFERENCE.index(case.variant))
    return [
        ReplyLine(case.text, case.reference_text, case.reference_audio_path)
        for case in usable
        if case.text is not None and case.reference_text is not None
    ]


def says_back(instructions: str) -> bool:
    """Return whether the instructions ask for the user's words to be repeated.

    >>> says_back("Repeat, word for word, what you hear.")
    True
    """
    return _SAY_BACK.search(instructions) is not None


def choose_option(instructions: str, heard: str) -> str | None:
    """Return the letter of an option, or None if the instructions list no options.

    A hash of the instructions and words selects the option, which gives chance-level accuracy over many
    questions.

    >>> choose_option("Be kind.", "hello") is None
    True
    """
    letters = "".join(dict.fromkeys(found[1] for found in _OPTION.finditer(instructions)))
    if len(letters) < _FEWEST_OPTIONS or letters != "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(letters)]:
        return None
    return letters[zlib.crc32(f"{instructions}\n{heard}".encode()) % len(letters)]


class ChatReplier:
    """Reply using an OpenAI-compatible chat server, such as ``"http://127.0.0.1:11434/v1"``."""

    def __init__(self, base_url: str, model: str, key: Secret | None) -> None:
        self._model = model
        settings = LlmSettings(base_url=base_url, key=key, timeout_s=_LLM_TIMEOUT_S)
        self._endpoint = ChatEndpoint(settings, SystemClock())

    async def reply(self, said: Sequence[ItemContent], instructions: str) -> ReplyLine:
        """Return the model's reply to the conversation."""
        messages = [{"role": "system", "content": instructions or _LLM_DEFAULT_PROMPT}]
        messages += [
            {"role": utterance.role.value, "content": utterance.text or "(speech without words)"}
            for utterance in said
        ]
        answer = await self._endpoint.call(self._model, messages, {})
        if isinstance(answer, CallFailure) and answer.kind in _RETRIED:
            answer = await self._endpoint.call(self._model, messages, {})
        if isinstance(answer, CallFailure):
            # also speak refusals and truncated replies
            partial = answer.answer.text.strip() if answer.answer is not None else ""
            if partial:
                return ReplyLine("", partial)
            if answer.kind is CallProblem.EMPTY:
                raise NoReplyError("llm_empty", f"the chat model {self._model!r} returned an empty answer")
            raise NoReplyError("llm_failed", f"the chat server failed: {answer.kind}: {answer.message}")
        return ReplyLine("", answer.text.strip())

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._endpoint.close()
