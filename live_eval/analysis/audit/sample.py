"""Select turns of a run to judge, spread evenly over scripts, and their donor turns."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from live_eval.analysis.audit.probes import DonorKind
from live_eval.analysis.statistics.sampling import spread_over_scripts
from live_eval.judging import Failed, JudgedTurn, JudgeKind, JudgeSpec, Need, Unscored, missing
from live_eval.recording import RunReader
from live_eval.scoring.scoring_run import AUDIO_NEEDS, before_asking, read_turn

__all__ = ["JudgeSample", "Opponents", "turn_in_other"]

_CHUNK_TURNS = 16
_USER_AUDIO = AUDIO_NEEDS - {Need.REPLY_AUDIO}


class JudgeSample:
    """Selects turns of a run that a judge can judge, and their donor turns.

    Args:
        limit: Maximum number of turns; 0 for all.
        seed: Seed of the random choices.
        also: Turn data to read in addition to the judge's inputs.
        sendable: Recording folders that may be sent to a model.
    """

    def __init__(
        self,
        run: RunReader,
        spec: JudgeSpec,
        *,
        limit: int,
        seed: int,
        also: frozenset[Need] = frozenset(),
        sendable: Sequence[Path] = (),
    ) -> None:
        self._run = run
        self._spec = spec
        self._limit = limit
        self._seed = seed
        self._needs = spec.needs | spec.uses | also
        self._sendable = sendable
        # Sorted, so that a seed selects the same turns regardless of completion order.
        known = (read_turn(run, turn, frozenset()).turn for turn in run.turns())
        self._known = sorted(known, key=lambda turn: turn.turn_id)
        self.asked = 0
        """The number of turns read for the judge so far."""
        self.skipped: Counter[str] = Counter()
        """The number of turns that could not be judged, by reason."""

    @property
    def total(self) -> int:
        """The number of turns in the run."""
        return len(self._known)

    @property
    def planned(self) -> int:
        """The maximum number of turns to yield."""
        return min(self._limit or self.total, self.total)

    def chunks(self) -> Iterator[list[JudgedTurn]]:
        """Yield the turns with the judge's inputs, in small batches because they contain audio.

        The order is random within rounds of one turn per script.
        """
        chunk: list[JudgedTurn] = []
        scripts = {turn.turn_id: turn.case.script_id for turn in self._known}
        for turn_id in spread_over_scripts(scripts, self._seed):
            if self._limit and self.asked >= self._limit:
                break
            item = read_turn(self._run, self._run.turn(turn_id), self._needs, self._sendable)
            verdict = before_asking(self._spec, item, self._needs)
            if verdict is not None:
                self.skipped[verdict.reason] += 1
                continue
            self.asked += 1
            chunk.append(item.turn)
            if len(chunk) == _CHUNK_TURNS:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def donor(self, turn: JudgedTurn, kind: DonorKind) -> JudgedTurn | None:
        """Return a donor turn from another script, or None."""
        random = np.random.default_rng([self._seed, zlib.crc32(turn.turn_id.encode())])
        donated = self._needs & _USER_AUDIO if kind is DonorKind.EMOTION else frozenset[Need]()
        for place in random.permutation(len(self._known)):
            other = self._known[place]
            if not self._can_donate(turn, other, kind):
                continue
            item = read_turn(self._run, self._run.turn(other.turn_id), donated, self._sendable)
            if item.withheld and self._spec.kind is not JudgeKind.LOCAL:
                continue
            needed = {Need.REFERENCE_AUDIO: turn.reference, Need.SPEAKER_AUDIO: turn.speaker}
            available = {Need.REFERENCE_AUDIO: item.turn.reference, Need.SPEAKER_AUDIO: item.turn.speaker}
            if all(needed[need] is None or available[need] is not None for need in donated):
                return item.turn
        return None

    def _can_donate(self, turn: JudgedTurn, other: JudgedTurn, kind: DonorKind) -> bool:
        if other.case.script_id == turn.case.script_id:
            return False
        if kind is DonorKind.WORDS:
            text = other.reply_text if Need.REPLY_TEXT in self._spec.needs else other.heard_text
            return bool((text or "").strip())
        mine, cue = turn.case.cue, other.case.cue
        if mine is None or cue is None or mine.name == cue.name:
            return False
        return other.case.reference_audio_path is not None or turn.reference is None


class Opponents:
    """The replies to compare a run's replies with: those of the run at `path`, or else the reference replies.

    Raises:
        StoreError: The folder is not a run.
    """

    def __init__(
        self, spec: JudgeSpec, path: Path | None, stack: ExitStack, sendable: Sequence[Path]
    ) -> None:
        self._spec = spec
        self._run = stack.enter_context(RunReader.open(path)) if path is not None else None
        self._sendable = sendable
        self.name = "the reference replies" if path is None else path.resolve().name
        of_reference = {Need.REPLY_AUDIO: Need.REFERENCE_AUDIO, Need.REPLY_TEXT: Need.REFERENCE_TEXT}
        needed = {of_reference[need] for need in spec.needs if need in of_reference}
        self.looks_at = frozenset(needed) if path is None else frozenset[Need]()
        """The turn data to read in addition to the judge's inputs."""

    def of(self, turn: JudgedTurn) -> JudgedTurn | Unscored:
        """Return the turn to compare with, or the reason why there is none."""
        if self._run is not None:
            other = turn_in_other(self._run, turn.turn_id, self._spec, self._sendable)
            if isinstance(other, JudgedTurn):
                return other
            return Unscored(f"the reply to compare with: {other.reason}")
        if (absent := missing(turn, self.looks_at)) is not None:
            return Unscored(f"no reply to compare with: {absent}")
        return replace(turn, reply=turn.reference, reply_text=turn.case.reference_text)


def turn_in_other(
    run: RunReader, turn_id: str, spec: JudgeSpec, sendable: Sequence[Path]
) -> JudgedTurn | Unscored | Failed:
    """Return another run's turn with the judge's inputs, or the reason why it cannot be judged."""
    if turn_id not in run:
        return Unscored("the turn is missing from the other run")
    item = read_turn(run, run.turn(turn_id), spec.needs | spec.uses, sendable)
    verdict = before_asking(spec, item)
    return item.turn if verdict is None else verdict
