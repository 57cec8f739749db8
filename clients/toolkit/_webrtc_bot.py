"""The base class for bots over WebRTC: replies are found by their energy, and messages add to that.

A bot's messages are JSON objects with a ``type``. A bot that sends none for two seconds counts as ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from live_eval.clients.toolkit._dialect import BaseDialect
from live_eval.clients.toolkit._fields import Fields, MalformedError, parse_object
from live_eval.clients.toolkit._settings import bearer_header, http_url
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    SdpBody,
    SetTimer,
    Signalling,
    UnknownEvent,
)

_READY = "ready"
_READY_NS = 2_000_000_000


class WebRtcBot(BaseDialect):
    """A dialect for bots over WebRTC; a subclass adds `hello` and `handle`.

    Args:
        settings: The settings of the session. ``extra`` is added to the offer. A key is sent as a bearer
            token, for bots behind a gateway. Model, instructions and voice are up to the bot.

    Raises:
        UsageError: The base URL is not a URL.
    """

    needs_continuous_input = True  # a bot's detector needs silence to be sent
    continuous_media = True  # the track does not mark replies

    path: ClassVar[str]
    """Path of the offer under the base URL."""
    channel: ClassVar[str]
    """Label of the data channel."""
    patch_candidates: ClassVar[bool] = False
    """Whether candidates follow in a PATCH."""
    ignored: ClassVar[frozenset[str]]
    """Known types of messages that need no handling; they are logged."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = http_url(settings.base_url, self.path, {})

    def fields(self) -> dict[str, Any]:
        """Return the members of the offer apart from ``sdp`` and ``type``."""
        return dict(self.settings.extra)

    def hello(self, at_ns: int) -> Sequence[Output]:
        """Greet the bot once the data channel is open."""
        raise NotImplementedError

    def handle(self, name: str, event: Fields) -> list[Output] | None:
        """Handle a message of the type `name`; return None if the type is unknown.

        Raises:
            MalformedError: The message cannot be used.
        """
        raise NotImplementedError

    def become_ready(self, session_id: str | None = None, model: str | None = None) -> list[Output]:
        """Note that the bot is ready, and report it once."""
        outputs = super().become_ready(session_id, model)
        return [SetTimer(_READY, None), *outputs] if outputs else []

    # -- The contract ------------------------------------------------------------------------------------

    def dial(self) -> Dial:
        """Return where and how to send the offer."""
        return Dial(
            self._url,
            bearer_header(self.settings),
            signalling=Signalling(
                offer=SdpBody.JSON,
                answer=SdpBody.JSON,
                fields=self.fields(),
                channel=self.channel,
                patch_candidates=self.patch_candidates,
                ice_servers=self.settings.ice_servers,
            ),
        )

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Greet the bot, and wait two seconds for it: not every bot replies."""
        return (*self.hello(at_ns), SetTimer(_READY, at_ns + _READY_NS))

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle a message of the bot; messages of the application itself count as unknown."""
        try:
            event = parse_object(message)
        except MalformedError:
            return (UnknownEvent("(no JSON object)"),)
        name = event.get("type")
        if not isinstance(name, str):
            return (UnknownEvent("(no type)"),)
        fields = Fields(name, event)
        try:
            outputs = self.handle(name, fields)
        except MalformedError as error:
            return (self.malformed(str(error)),)
        if outputs is None:
            outputs = [] if name in self.ignored else [self.unknown(name)]
        elif not all(isinstance(output, EndpointProblem) for output in outputs):
            outputs = [*self.become_ready(), *outputs]  # a bot that sends events is ready
        if fields.wrong:
            outputs.append(self.malformed("; ".join(fields.wrong)))
        return outputs

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Stop waiting for a bot that does not report that it is ready."""
        return self.become_ready() if name == _READY else ()

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        """Report nothing: the session knows whether a reply was due."""
        return ()
