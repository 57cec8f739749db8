"""Mix background noise and the echo of replies into the microphone signal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from live_eval.session.echo import EchoMixer
from live_eval.session.playback import Utterance
from live_eval.session.responses import OpenResponse
from live_eval.session.speaker import Frame, Heard, Speaker

__all__ = ["Surroundings"]


class Surroundings:
    """Add background noise or the echo of an output device to a `Speaker`.

    Recordings already contain their noise. The background of a recording continues after it, until the next
    one begins; the first recording's background is also used before it.

    Args:
        utterances: The speaker's utterances with their backgrounds, in order.
    """

    def __init__(
        self, speaker: Speaker, utterances: Sequence[Utterance], echo: EchoMixer | None = None
    ) -> None:
        self._speaker = speaker
        self._echo = echo
        self._backgrounds = [utterance.background for utterance in utterances]
        self._utterance = -1
        self._at = 0
        self.frame_ns = speaker.frame_ns
        self.listens = speaker.listens

    def hear(self, heard: Heard) -> None:
        """Forward a report to the speaker."""
        self._speaker.hear(heard)

    def overhear(self, responses: Iterable[OpenResponse]) -> None:
        """Register responses that may be audible now, for the echo."""
        if self._echo is not None:
            self._echo.listen(responses)

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the speaker's next frame, with background noise during silence and with the echo."""
        frame = self._speaker.frame(now_ns, start_ns)
        if frame is None:
            return None
        frame = self._with_background(frame)
        if self._echo is None:
            return frame
        return replace(frame, pcm=self._echo.mix(frame.pcm, start_ns))

    def _with_background(self, frame: Frame) -> Frame:
        before = max(0, self._utterance)
        if frame.began is not None:
            self._utterance += 1
        if frame.ended is not None:
            before, self._at = self._utterance, 0
        elif frame.speech and frame.began is None:
            return frame
        background = self._backgrounds[before]
        if not background:
            return frame
        behind = background[self._at % len(background)]
        self._at += 1
        return replace(frame, pcm=_filled(frame.pcm, behind) if frame.speech else behind)


def _filled(pcm: bytes, behind: bytes) -> bytes:
    """Fill the silent part of a frame in which a recording begins or ends with background noise."""
    samples = np.frombuffer(pcm, "<i2")
    return np.where(samples == 0, np.frombuffer(behind, "<i2"), samples).astype("<i2").tobytes()
