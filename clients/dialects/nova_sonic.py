"""Amazon Nova Sonic over Bedrock's ``InvokeModelWithBidirectionalStream``.

Event shapes follow Amazon's guide (https://docs.aws.amazon.com/nova/latest/nova2-userguide,
``sonic-output-events``); what it leaves open follows pipecat (``services/aws/nova_sonic``) and livekit-agents
(``livekit.plugins.aws.experimental.realtime``, 1.8). The transport delivers the response's headers as
``{"response": {}}`` and an exception of the service as ``{"exception": {"type", "message"}}``. Behaviour and
decisions:

* The user's audio begins, and the session is ready, after the response's headers or a second: a service under
  load refuses audio that follows a conversation too closely. The service sends no event that confirms it.
* The first content must be a system prompt, or the model stays silent, so a neutral prompt replaces missing
  instructions.
* ``endpoint.extra.sessionStart`` and ``endpoint.extra.promptStart`` are merged over these events. The base
  URL names the region, or ``endpoint.extra.region`` for other hosts.
* Replies have no IDs. A reply is planned in sentences: text (SPECULATIVE), audio, and later the text that was
  spoken (FINAL). The first text begins the reply, and shows that the user's turn was accepted.
* **END_TURN does not complete a reply.** The audio of an interrupted reply also ends with END_TURN;
  INTERRUPTED follows with a FINAL text. A reply is complete when all its FINAL texts have arrived, or one
  second after its playback. Its text becomes what was spoken, which is shorter after an interruption.
* **A connection ends after eight minutes.** After the first reply that completes later than six minutes, and
  after seven and a half minutes at the latest, a new session receives the conversation as text (at most
  40 kB, Amazon's limit) and the last three seconds of the user's audio.

There are no manual turns, detector events, incomplete responses or rate-limit messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from live_eval.clients.dialects._nova_sonic_errors import failure_kind
from live_eval.clients.dialects._nova_sonic_prompt import NovaPrompt, nova_dial
from live_eval.clients.dialects._nova_sonic_replies import NovaReplies, generation_stage
from live_eval.clients.toolkit import (
    BaseDialect,
    Fields,
    Handler,
    MalformedError,
    UserTurns,
    parse_object,
)
from live_eval.dialect import (
    Dial,
    EndpointSettings,
    InputTranscript,
    Message,
    Output,
    Reconnect,
    SetTimer,
)
from live_eval.errors import FailureKind

__all__ = ["NovaSonic"]

_SECOND_NS = 1_000_000_000
_RENEW = "renew the session"
_NO_HEADERS = "no headers"
_INTERRUPTED = re.compile(r'\s*\{\s*"interrupted"\s*:\s*true\s*\}\s*')
_CHECK_KEY = "check the AWS credentials, and that they may use this model in this region"


class _Content(NamedTuple):
    """A content block from the endpoint; blocks do not overlap."""

    kind: str = ""
    role: str = ""
    stage: str = ""


class NovaSonic(BaseDialect):
    """A `Dialect` that tracks the state of one session, over several connections.

    Raises:
        UsageError: Nova Sonic does not support these settings, or the region is missing.
    """

    needs_continuous_input = True
    renew_ns: ClassVar[int] = 360 * _SECOND_NS
    """Age of a connection at which the end of a reply renews the session."""
    renew_latest_ns: ClassVar[int] = 450 * _SECOND_NS
    """Age at which the session is renewed in any case."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._dial = nova_dial(settings)
        self.secrets |= {value for name, value in self._dial.sdk.items() if name.startswith("aws_")}
        self._prompt = NovaPrompt(settings)
        self.handlers: dict[str, Handler] = {
            "completionStart": lambda event, at_ns: [],
            "contentStart": self._on_content_start,
            "textOutput": self._on_text,
            "audioOutput": self._on_audio,
            "contentEnd": self._on_content_end,
            "completionEnd": lambda event, at_ns: self._finished(at_ns),
            "usageEvent": self._on_usage,
            "toolUse": self._on_tool_use,
        }
        self._replies = NovaReplies(partial(self._prompt.remember, "ASSISTANT"))
        self._content = _Content()
        self._heard: list[str] = []  # the user's words since the last reply began
        self._turns = UserTurns()
        self._opened_ns = 0
        self._moving = False  # whether a new connection has been requested

    def dial(self) -> Dial:
        return self._dial

    def opened(self, at_ns: int) -> Sequence[Output]:
        self._opened_ns, self._moving = at_ns, False
        return *self._prompt.begin(), SetTimer(_NO_HEADERS, at_ns + _SECOND_NS)

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle an event or exception; ignore those of a session that is being replaced."""
        try:
            values = parse_object(message)
        except MalformedError as error:
            return (self.malformed(str(error)),)
        if self._moving:
            return ()
        named, handlers = values.get("event"), self.handlers
        if "response" in values:
            return self._begin_audio()
        if "exception" in values:
            named, handlers = values, {"exception": self._on_exception}
        if not isinstance(named, dict):
            return (self.malformed("expected an object in 'event'"),)
        outputs = [] if "exception" in values else self._begin_audio()  # events follow the headers
        for name, value in named.items():
            if name not in handlers:
                outputs.append(self.unknown(name))
            elif not isinstance(value, dict):
                outputs.append(self.malformed(f"expected an object in {name!r}"))
            else:
                outputs += self.handled(handlers[name], Fields(name, value), at_ns)
        return outputs

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return self._prompt.frame(pcm)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        if name == _NO_HEADERS:
            return self._begin_audio()
        return self._finished(at_ns) if name == NovaReplies.TIMER else self._renew(at_ns)

    def finish(self, at_ns: int) -> Sequence[Output]:
        farewell = () if self._prompt.holds or self.over else self._prompt.end()
        return (*farewell, *super().finish(at_ns))

    def audio_fields_of(self, event: Mapping[str, Any]) -> Sequence[str]:
        """Return the field with audio; texts have the same name."""
        inner = event.get("event")
        speaks = isinstance(inner, dict) and not inner.keys().isdisjoint(("audioInput", "audioOutput"))
        return ("content",) if speaks else ()

    # -- Endpoint events ---------------------------------------------------------------------------------

    def _on_content_start(self, event: Fields, at_ns: int) -> list[Output]:
        stage = generation_stage(event.text("additionalModelFields"))
        self._content = _Content(event.need_text("type"), event.text("role") or "", stage)
        begins = stage == "SPECULATIVE" or (self._content.kind == "AUDIO" and not self._replies.drops)
        if self._content.role != "ASSISTANT" or not begins or self._replies.unfinished:
            return []
        outputs = self._replies.complete()
        self._prompt.answered()
        if self._heard:
            text, self._heard = " ".join(self._heard), []
            self._prompt.remember("USER", text)
            outputs += self._turns.said(text)
        return [*outputs, self._replies.begin()]

    def _on_text(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.need_text("content").strip()
        if _INTERRUPTED.fullmatch(text):
            return self._replies.interrupt(at_ns)
        if not text:
            return []
        if self._content.role == "USER":
            self._heard.append(text)
            return [InputTranscript(f"{text} ", False, self._turns.next)]
        if self._content.stage == "FINAL":
            self._replies.spoken(text)
            return []
        return self._replies.planned(text)

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        return self._replies.hear(event.need_samples("content"), at_ns)

    def _on_content_end(self, event: Fields, at_ns: int) -> list[Output]:
        ended, self._content = self._content, _Content()
        reason = event.text("stopReason")
        if ended.role != "ASSISTANT":
            return []
        if reason == "INTERRUPTED":
            return self._replies.interrupt(at_ns)
        if ended.kind == "AUDIO" and reason == "END_TURN":
            return self._replies.audio_ended(at_ns)
        return self._finished(at_ns) if ended.stage == "FINAL" and self._replies.all_spoken else []

    def _on_usage(self, event: Fields, at_ns: int) -> list[Output]:
        self._replies.count(event.child("details").child("delta"))
        return []

    def _on_tool_use(self, event: Fields, at_ns: int) -> list[Output]:
        name = self.clean(event.text("toolName") or "unnamed")
        return [self.warning(f"the model called the tool {name!r}, which this client cannot run")]

    def _on_exception(self, event: Fields, at_ns: int) -> list[Output]:
        name, text = event.need_name("type"), event.text("message") or "no details"
        kind = failure_kind(name, text, old=at_ns - self._opened_ns >= self.renew_ns)
        hint = f"; {_CHECK_KEY}" if kind is FailureKind.AUTHENTICATION else ""
        return [self.fatal(kind, f"the endpoint ended the session: {name}: {text}{hint}", name)]

    def _begin_audio(self) -> list[Output]:
        """Begin the user's audio with the frames that wait."""
        if not self._prompt.holds or self.over:
            return []
        timers = SetTimer(_NO_HEADERS, None), SetTimer(_RENEW, self._opened_ns + self.renew_latest_ns)
        return [*self._prompt.begin_audio(), *self.become_ready(), *timers]

    # -- Renewal -----------------------------------------------------------------------------------------

    def _finished(self, at_ns: int) -> list[Output]:
        """Complete the active reply, and renew an old session."""
        outputs = self._replies.complete()
        due = bool(outputs) and at_ns - self._opened_ns >= self.renew_ns
        return [*outputs, *(self._renew(at_ns) if due else ())]

    def _renew(self, at_ns: int) -> list[Output]:
        """Replace the session; a reply that is still arriving is cut off."""
        if self._prompt.holds or self.over:
            return []
        outputs = [*self._replies.cut_off("session renewed"), *self._prompt.end()]
        self._moving = True
        self._prompt.hold_audio()
        self._content, self._heard = _Content(), []
        text = (
            f"the session is renewed after {(at_ns - self._opened_ns) // _SECOND_NS} s, since it ends after "
            "8 minutes: the new one receives the conversation as text"
        )
        return [*outputs, self.warning(text), Reconnect()]
