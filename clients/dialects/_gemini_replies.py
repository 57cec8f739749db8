"""Track Gemini's replies, which have no IDs, and its transcripts, which have no end markers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import Fields, MalformedError, ResponseTracker, TrackedResponse, parse_object
from live_eval.dialect import (
    EndpointProblem,
    InputTranscript,
    Interrupted,
    Message,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    SetTimer,
    Usage,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus

SILENT_AFTER_INTERRUPTION = "silent after interruption"
"""Name of the timer that ends an interrupted reply once it stays silent."""

CONTENT = frozenset(
    {
        "generationComplete",
        "groundingMetadata",
        "inputTranscription",
        "interactionStatus",
        "interimInputTranscription",
        "interrupted",
        "modelTurn",
        "outputTranscription",
        "speechState",
        "turnComplete",
        "turnCompleteReason",
        "urlContextMetadata",
        "waitingForInput",
    }
)
"""Known fields of ``serverContent``."""

_SILENCE_NS = 5_000_000_000
_LATE_NS = 500_000_000
_AUDIO_RATE_HZ = 24_000
_GOES_ON, _IDLE = "IN_PROGRESS", ("IDLE", "REQUIRES_ACTION")
_WAITS = "NEED_MORE_INPUT"
_NO_REASON = (None, "", "TURN_COMPLETE_REASON_UNSPECIFIED", _WAITS)

_FIELD = re.compile(r'"\w+"(?=\s*:)')
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_WAIT = re.compile(r"retry in (\d{1,9}(?:\.\d+)?)\s*(ms|s)", re.IGNORECASE)

# Google's close reasons and error messages; the first match wins. Collected from its documentation and from
# user reports, since the codes (1007, 1008, 1011) alone do not distinguish these failures.
_TEXTS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"\bquota|resource[ _]exhausted|rate[ _-]?limit|too many requests", FailureKind.RATE_LIMITED),
        (
            r"api[ _]key|leaked|unauthenticated|permission[ _]denied|authentication credential"
            r"|unregistered callers|auth[ _]token|access token",
            FailureKind.AUTHENTICATION,
        ),
        (
            r"not found for api version|for bidigeneratecontent|\bmodel\b.{0,200}\bnot (found|supported)"
            r"|\bmodel\b.{0,200}no longer available",
            FailureKind.UNKNOWN_MODEL,
        ),
        (
            # A connection that reaches its maximum duration is ABORTED (LiveServerGoAway.time_left).
            r"deadline[ _]e(xpired|xceeded)|goaway|operation was aborted|maximum (session )?duration"
            r"|session (duration |has |is )?expired|session not found",
            FailureKind.SESSION_EXPIRED,
        ),
    )
)


class GeminiReplies:
    """Track a session's replies and whether one is due; `clean` removes secrets from endpoint messages."""

    def __init__(self, *, speaks: bool, clean: Callable[[str], str]) -> None:
        self._speaks = speaks
        self._clean = clean
        self._codec = Codec(CodecName.PCM16, _AUDIO_RATE_HZ)
        self._replies = ResponseTracker()
        self._part = 0
        self.over = 0
        self._user_was_heard = False
        self._heard = ""
        self._heard_saved = ""
        self._heard_whole = False
        self._interrupted_idle = False
        self._generates = False
        self._spoken_over = False  # the user spoke or ended a turn during the last reply
        self._ended_ns = 0  # when the last reply ended
        self._usage: Usage | None = None
        self.owed = True
        """Whether a reply to the user's last or next turn is due."""
        self.answered = 0
        """The number of replies that ended without being cut off."""

    @property
    def active(self) -> TrackedResponse | None:
        """The reply in progress, or None."""
        return self._replies.active

    def reply(self, response_id: str) -> TrackedResponse | None:
        """Return a reply by its ID, or None if it has not started."""
        return self._replies.get(response_id)

    # -- The user ----------------------------------------------------------------------------------------

    def user_spoke(self) -> None:
        """Expect a reply, because the user started or ended a turn."""
        self._spoken_over |= self.active is not None
        self.owed = self._user_was_heard = True

    def resumable(self, resumable: bool) -> None:
        """Record whether the session can be resumed; it cannot while the model generates."""
        self._generates = not resumable

    def saved(self) -> None:
        """Record that the latest resumption handle covers the transcript so far."""
        self._heard_saved = self._heard

    def lost(self) -> list[Output]:
        """Discard the transcript since the last resumption handle, because that speech is sent again."""
        outputs: list[Output] = []
        if self._heard:
            outputs.append(InputTranscript(self._heard_saved, True, self._item_id))
            self._begin_input()
        if self.active is not None:
            outputs.extend(self._end(self.active, ResponseStatus.CANCELLED, "its connection ended (goAway)"))
        return outputs

    def on_usage(self, metadata: Fields, at_ns: int) -> list[Output]:
        """Store the token counts; a reply gets the latest counts received before its turn ends."""
        self._usage = _usage(metadata)
        return []

    def on_silence(self) -> list[Output]:
        """End an interrupted reply that received no end event."""
        reply = self.active
        if reply is None or not reply.interrupted:
            return []
        return self._end(reply, ResponseStatus.CANCELLED, "interrupted; nothing followed")

    def on_content(self, content: Fields, at_ns: int) -> list[Output]:
        """Handle the fields of ``serverContent`` in the order in which their events occurred."""
        outputs: list[Output] = []
        if "inputTranscription" in content:
            outputs.extend(self._on_heard(content.child("inputTranscription")))
        for part in content.child("modelTurn").children("parts"):
            outputs.extend(self._on_part(part, at_ns))
        if "outputTranscription" in content:
            outputs.extend(self._on_said(content.child("outputTranscription")))
        if content.flag("generationComplete") and self.active is not None:
            self.active.end_part(None, self._part)
            outputs.append(ReplyAudioDone(self.active.response_id))
        if content.flag("interrupted"):
            outputs.extend(self._on_interrupted(at_ns))
        outputs.extend(self._on_status(content, at_ns))
        return outputs

    def _on_heard(self, piece: Fields) -> list[Output]:
        text, finished = piece.text("text") or "", piece.flag("finished") is True
        if not text and not (finished and self._heard):
            return []
        late = self.over > 0 and self.active is None
        if not late or self.owed:
            # Transcripts arrive in no fixed order relative to replies, so the user may have spoken long ago.
            self.owed = self._user_was_heard = True
        text = text if self._heard else text.lstrip()
        self._heard += text
        self._heard_whole = finished or late
        return [InputTranscript(self._heard if self._heard_whole else text, self._heard_whole, self._item_id)]

    @property
    def _item_id(self) -> str:
        return f"user_{self.over + 1}"

    def _begin_input(self) -> None:
        self.over += 1
        self._heard, self._heard_saved, self._heard_whole = "", "", False

    # -- The reply ---------------------------------------------------------------------------------------

    def _on_part(self, part: Fields, at_ns: int) -> list[Output]:
        if part.flag("thought"):
            return []
        outputs: list[Output] = []
        text = part.text("text")
        if text and not self._speaks:  # the text of a spoken reply is its transcript
            reply = self._reply(outputs)
            outputs.append(ReplyText(reply.response_id, text))
        if "inlineData" in part:
            try:
                outputs.extend(self._on_data(part.child("inlineData"), at_ns))
            except MalformedError as error:
                message = self._clean(str(error))
                outputs.append(EndpointProblem(FailureKind.MALFORMED_MESSAGE, message, fatal=False))
        return outputs

    def _on_data(self, blob: Fields, at_ns: int) -> list[Output]:
        mime_type = blob.need_name("mimeType")
        rate_hz = _pcm_rate_hz(mime_type)
        came = self._clean(mime_type)
        if rate_hz is None:
            text = f"expected the reply as audio/pcm, got {came!r}"
            return [EndpointProblem(FailureKind.MALFORMED_AUDIO, text, fatal=True)]
        if rate_hz != self._codec.rate_hz:
            text = f"expected the reply at {self._codec.rate_hz} Hz, got {came!r}"
            return [EndpointProblem(FailureKind.WRONG_RATE, text, fatal=True)]
        data = blob.need_bytes("data")
        outputs: list[Output] = []
        reply = self._late(at_ns) or self._reply(outputs)
        late = reply.received(None, self._part, len(data) // 2, rate_hz, at_ns)
        return [*outputs, ReplyAudio(reply.response_id, data, self._codec), *late]

    def _late(self, at_ns: int) -> TrackedResponse | None:
        """Return the reply that late audio belongs to: the last one, or None if another is due."""
        last = self._replies.last()
        another = self.owed or self._generates or self._spoken_over
        return last if last and last.done and not another and at_ns - self._ended_ns <= _LATE_NS else None

    def _on_said(self, piece: Fields) -> list[Output]:
        text, last = piece.text("text"), self._replies.last()
        if not text:
            return []
        if last is not None and last.done and not self.owed:
            return [ReplyText(last.response_id, text)]
        outputs: list[Output] = []
        reply = self._reply(outputs)
        return [*outputs, ReplyText(reply.response_id, text)]

    def _reply(self, outputs: list[Output]) -> TrackedResponse:
        """Return the reply in progress; start a new one if there is none or it was interrupted."""
        if self.active is not None and self.active.interrupted:
            outputs.extend(self._end(self.active, ResponseStatus.CANCELLED, "interrupted"))
        if self.active is None:
            self._part = 0
            self._interrupted_idle = self._spoken_over = False
        return self._replies.current(outputs)

    def _on_interrupted(self, at_ns: int) -> list[Output]:
        """Stop the reply that is in progress or still playing."""
        # Without a reply, the user spoke first and the turn ends without a reply.
        self.owed = True
        self._interrupted_idle = self.active is None
        reply = self._replies.audible(at_ns)
        if reply is None:
            return []
        reply.interrupted = True
        outputs: list[Output] = [Interrupted(reply.response_id)]
        return outputs if reply.done else [*outputs, SetTimer(SILENT_AFTER_INTERRUPTION, at_ns + _SILENCE_NS)]

    def _on_status(self, content: Fields, at_ns: int) -> list[Output]:
        """End the turn if the message reports its end."""
        status, complete = content.text("interactionStatus"), content.flag("turnComplete") is True
        if status == _GOES_ON:
            self._part += complete  # later content belongs to the next part of the reply
            return []
        if not complete and status not in _IDLE:
            return []
        reason, outputs = content.text("turnCompleteReason"), list[Output]()
        if self.active is None:
            waits = content.flag("waitingForInput") or reason == _WAITS or self._interrupted_idle
            self._interrupted_idle = False
            expected = self.owed and (self._user_was_heard or self._generates)
            if waits or not (complete and expected):
                return []
        self._ended_ns = at_ns
        reply = self.active or self._reply(outputs)
        return [*outputs, *self._end(reply, *self._ending(reply, reason))]

    def _ending(self, reply: TrackedResponse, reason: str | None) -> tuple[ResponseStatus, str]:
        if reply.interrupted:
            return ResponseStatus.CANCELLED, "interrupted"
        if reason in _NO_REASON:
            return ResponseStatus.COMPLETED, ""
        began = reply.plays_until_ns > 0
        return ResponseStatus.INCOMPLETE if began else ResponseStatus.FAILED, self._clean(reason or "")

    def _end(self, reply: TrackedResponse, status: ResponseStatus, reason: str) -> list[Output]:
        outputs: list[Output] = []
        if reply.interrupted:
            outputs.append(SetTimer(SILENT_AFTER_INTERRUPTION, None))
        self._replies.end(reply)
        self.owed = status is ResponseStatus.CANCELLED
        self.answered += not self.owed
        self._user_was_heard = self._generates = False
        if self._heard and not self._heard_whole:
            outputs.append(InputTranscript(self._heard, True, self._item_id))
        self._begin_input()
        usage, self._usage = self._usage, None
        return [*outputs, ResponseDone(reply.response_id, status, reason, usage)]


def parse_message(message: Message) -> dict[str, Any]:
    """Parse a message and convert its field names to camel case.

    Google's servers send JSON in binary frames; other servers spell names in snake case.

    Raises:
        MalformedError: The message is not a JSON object.
    """
    if isinstance(message, bytes):
        try:
            message = message.decode()
        except UnicodeDecodeError:
            raise MalformedError(f"expected JSON, got {len(message)} bytes of invalid UTF-8") from None
    value = parse_object(message)
    return parse_object(_FIELD.sub(_camel, message)) if any("_" in name for name in value) else value


def _camel(name: re.Match[str]) -> str:
    first, *rest = name[0].split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def duration_ns(text: str | None) -> int | None:
    """Parse a duration in Google's JSON format; return None if it is invalid.

    >>> duration_ns("9.5s")
    9500000000
    """
    found = _DURATION.fullmatch(text or "")
    return None if found is None else round(float(found[1]) * 1_000_000_000)


def failure_in(text: str) -> FailureKind | None:
    """Return the failure described by an error message or close reason, or None if unknown."""
    return next((kind for pattern, kind in _TEXTS if pattern.search(text)), None)


def retry_after_s(text: str) -> float | None:
    """Return the requested delay in seconds, or None if the text contains none.

    >>> retry_after_s("You exceeded your current quota. Please retry in 12.5s.")
    12.5
    """
    found = _WAIT.search(text)
    return None if found is None else float(found[1]) / (1_000 if found[2].lower() == "ms" else 1)


def _pcm_rate_hz(mime_type: str) -> int | None:
    """Return the sample rate in ``audio/pcm;rate=24000``: 0 if unspecified, None if the type is not PCM.

    >>> _pcm_rate_hz("audio/pcm;rate=24000"), _pcm_rate_hz("audio/pcm"), _pcm_rate_hz("audio/mpeg")
    (24000, 0, None)
    """
    kind, *parameters = (part.strip().lower() for part in mime_type.split(";"))
    if kind not in ("audio/pcm", "audio/l16"):
        return None
    rates = [
        value.strip() for name, _, value in (part.partition("=") for part in parameters) if name == "rate"
    ]
    return int(rates[0]) if rates and re.fullmatch(r"[0-9]{1,9}", rates[0]) else 0


def _usage(metadata: Fields) -> Usage:
    """Return the token counts in ``usageMetadata``; thinking tokens count as output."""
    said, thought = metadata.integer("responseTokenCount"), metadata.integer("thoughtsTokenCount")
    return Usage(
        input_tokens=metadata.integer("promptTokenCount"),
        output_tokens=said if thought is None else (said or 0) + thought,
        input_audio_tokens=_audio_tokens(metadata, "promptTokensDetails"),
        output_audio_tokens=_audio_tokens(metadata, "responseTokensDetails"),
        cached_tokens=metadata.integer("cachedContentTokenCount"),
    )


def _audio_tokens(metadata: Fields, name: str) -> int | None:
    counts = [
        entry.integer("tokenCount")
        for entry in metadata.children(name)
        if (entry.text("modality") or "").upper() == "AUDIO"
    ]
    return sum(count or 0 for count in counts) if counts else None
