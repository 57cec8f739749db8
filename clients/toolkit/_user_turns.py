"""Number the user's turns of an endpoint that gives them no IDs."""

from __future__ import annotations

from live_eval.dialect import Committed, InputTranscript, Output, SpeechStopped


class UserTurns:
    """The user's turns of a session, named ``user_1``, ``user_2``, …

    Such an endpoint reports the end of the user's speech only by accepting the turn, so this is both.

    >>> [type(output).__name__ for output in UserTurns().said("Hello.")]
    ['SpeechStopped', 'Committed', 'InputTranscript']
    """

    def __init__(self) -> None:
        self._accepted = 0

    @property
    def last(self) -> str:
        """The ID of the last accepted turn."""
        return f"user_{self._accepted}"

    @property
    def next(self) -> str:
        """The ID of the turn that is accepted next."""
        return f"user_{self._accepted + 1}"

    def accept(self) -> list[Output]:
        """Return the output for a turn that the endpoint accepted."""
        self._accepted += 1
        return [SpeechStopped(item_id=self.last), Committed(self.last)]

    def said(self, text: str) -> list[Output]:
        """Return the outputs for a turn that the endpoint accepted with its transcript."""
        return [*self.accept(), InputTranscript(text, True, self.last)]
