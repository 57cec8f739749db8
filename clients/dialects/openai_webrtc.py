"""OpenAI Realtime over WebRTC: the GA dialect with events on a data channel and audio on a track.

Sources: https://platform.openai.com/docs/guides/realtime-webrtc and the official SDK
(``openai.types.realtime``, ``openai.resources.realtime.calls``). Differences from WebSocket:

* The offer is POSTed to ``/realtime/calls``: with a standard key, as the ``sdp`` part of a form that also has
  a ``session`` part; with an ephemeral key (``ek_…``), which is already bound to a session, as plain SDP.
* The channel carries no audio. ``output_audio_buffer.started``, ``.stopped`` and ``.cleared`` contain the ID
  of the response on the track. ``response.done`` arrives long before ``.stopped``: the model generates audio
  faster than real time.
* The endpoint tracks the playback position, so it truncates by itself. ``response.cancel`` and
  ``output_audio_buffer.clear`` stop a reply.

Decisions that the documentation leaves open:

* **Interrupted.** A playing reply is interrupted when its buffer is cleared without our request; a reply
  cancelled by `turn_detected` before playback is interrupted at ``response.done``.
* **A connection that ends during playback** cuts the reply off, even after ``response.done``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from live_eval.clients.dialects.openai_realtime import OpenAIRealtime, SessionTerms
from live_eval.clients.toolkit import Fields, Handler, TrackedResponse, given, http_url
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Output,
    PlaybackStarted,
    PlaybackStopped,
    SdpBody,
    Signalling,
)

__all__ = ["OpenAIWebRtc"]

_CHANNEL = "oai-events"
_EPHEMERAL = "ek_"


class OpenAIWebRtc(OpenAIRealtime):
    """A `Dialect` that tracks the state of one session in the GA dialect over WebRTC.

    Args:
        settings: See `OpenAIRealtime`. Audio formats in ``extra`` have no effect.

    Raises:
        UsageError: The base URL is not a URL.
    """

    needs_continuous_input = True  # a track sends continuously, and the endpoint uses it as its clock

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        key = settings.key.reveal() if settings.key is not None else ""
        self._bound = key.startswith(_EPHEMERAL)
        query = given(model=settings.model) if self._bound else {}
        self._url = http_url(settings.base_url, "realtime/calls", query)
        self._sounding: TrackedResponse | None = None

    def asked_session(self) -> dict[str, Any]:
        """Return the GA session without audio formats, which the session description sets."""
        session = super().asked_session()
        for part in session["audio"].values():
            del part["format"]
        return session

    def terms_of(self, session: Fields) -> SessionTerms:
        return SessionTerms(None, None, self.stops_replies(session.child("audio").child("input")))

    def dial(self) -> Dial:
        return Dial(
            self._url,
            self.headers(),
            signalling=Signalling(
                offer=SdpBody.SDP if self._bound else SdpBody.FORM,
                answer=SdpBody.SDP,
                fields={} if self._bound else {"session": self._session | given(model=self.settings.model)},
                channel=_CHANNEL,
                ice_servers=self.settings.ice_servers,
            ),
        )

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return ()  # audio is sent on the track

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        reply = self._replies.get(response_id)
        if reply is None:
            return super().interrupt(response_id, heard_ms, at_ns)
        outputs: list[Output] = []
        if not reply.done:
            outputs.append(self._request("response.cancel", response_id=response_id))
        if reply is self._sounding and not reply.interrupted:
            reply.interrupted = True
            outputs.append(self._request("output_audio_buffer.clear"))
        return outputs

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        self._owed = self._owed or self._sounding is not None
        return super().closing(code, reason, at_ns)

    def _table(self) -> dict[str, Handler]:
        return {
            **super()._table(),
            "response.output_audio.delta": lambda event, _: [],  # audio arrives on the track
            "output_audio_buffer.started": self._on_playback_started,
            "output_audio_buffer.stopped": lambda event, _: self._on_playback_ended(event, cleared=False),
            "output_audio_buffer.cleared": lambda event, _: self._on_playback_ended(event, cleared=True),
        }

    def _on_playback_started(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        self._sounding = self._of_buffer(event, outputs)
        return [*outputs, PlaybackStarted(self._sounding.response_id)]

    def _on_playback_ended(self, event: Fields, *, cleared: bool) -> list[Output]:
        outputs: list[Output] = []
        reply = self._of_buffer(event, outputs)
        if reply is self._sounding:
            self._sounding = None
        outputs.append(PlaybackStopped(reply.response_id))
        return [*outputs, *self._interrupted(reply)] if cleared else outputs

    def _of_buffer(self, event: Fields, outputs: list[Output]) -> TrackedResponse:
        """Return the response that a buffer event refers to; some servers omit its ID."""
        unnamed = None if "response_id" in event else self._sounding or self._replies.last()
        return unnamed or self._reply(event, "response_id", outputs)

    def _interrupted(self, reply: TrackedResponse) -> list[Output]:
        """Report once that a response was interrupted; it plays until the buffer is cleared."""
        return [] if reply is self._sounding else super()._interrupted(reply)
