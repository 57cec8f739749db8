"""Number the user's turns of an endpoint that gives them no IDs."""

from __future__ import annotations

from live_eval.dialect import Committed, InputTranscript, Output


class UserTurns:
    """The user's turns of a session, named ``user_1``, ``user_2``, …

    >>> UserTurns().said("Hello.")
    [Committed(item_id='user_1'), InputTranscript(text='Hello.', final=True, item_id='user_1')]
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
        return [Committed(self.last)]

    def said(self, text: str) -> list[Output]:
        """Return the outputs for a turn that the endpoint accepted with its transcript."""
        return [*self.accept(), InputTranscript(text, True, self.last)]
