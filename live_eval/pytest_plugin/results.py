"""Define the results of turns in tests: latencies as durations, the reply, and assertions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from live_eval.analysis.assertions import Assertion, CheckedAssertion
from live_eval.analysis.latency.assertions import check_turns, parse_assertion
from live_eval.analysis.latency.campaign_latencies import latency_of
from live_eval.audio import Audio
from live_eval.campaigns.duplex.assertions import parse_duplex_assertion
from live_eval.errors import UsageError
from live_eval.pytest_plugin.duration import Duration
from live_eval.recording import RunReader
from live_eval.recording.record import TurnRecord
from live_eval.text.wording import counted

__all__ = ["Result", "Results", "read_turns"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """A turn with its run folder and its latencies, defined in docs/reference/latencies.md, as durations."""

    record: TurnRecord
    run: Path

    @property
    def connect(self) -> Duration:
        """Time from the start of dialling until the session is ready."""
        return self._duration("connect")

    @property
    def endpointing(self) -> Duration:
        """Time from the end of the user's speech until the endpoint reports it."""
        return self._duration("endpointing")

    @property
    def first_byte(self) -> Duration:
        """Time from the end of the user's speech to the first audio of the reply."""
        return self._duration("first_byte")

    @property
    def voice_to_voice(self) -> Duration:
        """Time from the end of the user's speech until the first audible sample of the reply is heard."""
        return self._duration("voice_to_voice")

    @property
    def lead_silence(self) -> Duration:
        """Difference between `voice_to_voice` and `first_byte`."""
        return self._duration("lead_silence")

    @property
    def transcript(self) -> Duration:
        """Time from the end of the user's speech to the first text of the reply."""
        return self._duration("transcript")

    @property
    def complete(self) -> Duration:
        """Time from the end of the user's speech until the endpoint reports the end of its reply."""
        return self._duration("complete")

    @property
    def text(self) -> str | None:
        """The endpoint's transcript of the reply, or None."""
        return self.record.reply_text

    @property
    def heard_text(self) -> str | None:
        """The endpoint's transcript of the user, or None."""
        return self.record.heard_text

    def reply(self) -> Audio | None:
        """Return the reply's audio, float32 mono, shape (samples,), with its sample rate, or None."""
        with RunReader.open(self.run) as reader:
            return reader.reply(self.record.turn_id)

    @property
    def uncertain(self) -> bool:
        """Whether the end of the user's speech, from which most latencies start, is uncertain."""
        return self.record.timing.uncertain

    def _duration(self, name: str) -> Duration:
        found = latency_of(self.record, name)
        if found.ns is None:
            return Duration(None, reason=found.reason)
        return Duration(found.ns, error_bar_ns=self.record.timing.lag_ns)

    def __repr__(self) -> str:
        doubt = " (the end of speech is uncertain)" if self.uncertain else ""
        return f"<turn {self.record.turn_id!r}{doubt} recorded in {self.run}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Results(Sequence[Result]):
    """The turns of a run, including failed ones, in the order in which they ended."""

    turns: tuple[Result, ...]
    run: Path

    @property
    def failed(self) -> dict[str, str]:
        """Each failure's kind and message, by turn."""
        return {
            turn.record.turn_id: f"{turn.record.failure.kind}: {turn.record.failure.message}"
            for turn in self.turns
            if turn.record.failure is not None
        }

    def meet(self, expression: str) -> CheckedAssertion:
        """Check an assertion such as ``voice_to_voice.p95 < 1200ms``.

        Returns:
            The result, which is true if the assertion holds and prints as a sentence.

        Raises:
            UsageError: The expression is not a valid assertion.
        """
        return check_turns(_parsed(expression), [turn.record for turn in self.turns])

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | Sequence[Result]:
        return self.turns[index]

    def __len__(self) -> int:
        return len(self.turns)

    def __repr__(self) -> str:
        return f"<{counted(len(self.turns), 'turn')} recorded in {self.run}>"


def _parsed(expression: str) -> Assertion:
    try:
        return parse_assertion(expression)
    except UsageError as error:
        try:
            name = parse_duplex_assertion(expression).name
        except UsageError:
            raise error from None
        raise UsageError(
            f"assertion {expression!r}: `play_probe` measures {name}; `play_all` does not"
        ) from None


def read_turns(run: Path) -> Results:
    """Return the turns of a run.

    Raises:
        StoreError: The folder is not a run.
    """
    with RunReader.open(run) as reader:
        return Results(tuple(Result(record, run) for record in reader.turns()), run)
