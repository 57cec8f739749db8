"""Run the audit parts that call the judge: repeats, swapped order, degradations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from live_eval.analysis.audit.asking import Asker, Pair, swapped
from live_eval.analysis.audit.probes import Change, DonorKind, JudgeProbe, probes_for
from live_eval.analysis.audit.reliability import (
    BothOrders,
    Degraded,
    Repeated,
    consistency,
    degradation_effect,
    order_effect,
)
from live_eval.analysis.audit.sample import Opponents
from live_eval.judging import (
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Scored,
    Unscored,
    missing,
    score_name,
)

__all__ = ["ExperimentSettings", "Experiments", "FindDonor", "PairExperiments", "SingleExperiments", "Tally"]

FindDonor = Callable[[JudgedTurn, DonorKind], JudgedTurn | None]


@dataclass(slots=True)
class Tally:
    """Counts of judgements without a score (unscored or failed), by reason."""

    n_unscored: int = 0
    n_failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def values(self, judgement: Judgement) -> Mapping[str, float] | None:
        """Return the judgement's values; if there are none, count the judgement and return None."""
        if isinstance(judgement, Scored):
            return judgement.values
        self.n_unscored += isinstance(judgement, Unscored)
        self.n_failed += isinstance(judgement, Failed)
        self.reasons[judgement.reason] += 1
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the counts as printed by ``live-eval audit --json``."""
        return {
            "n_unscored": self.n_unscored,
            "n_failed": self.n_failed,
            "reasons": dict(self.reasons.most_common()),
        }


@dataclass(slots=True)
class _Probed:
    """The results of one degradation so far, by output."""

    probe: JudgeProbe
    rows: dict[str, list[Degraded]]
    tally: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSettings:
    """The settings of the experiments.

    Args:
        parts: Audit parts that call the judge.
        repeats: Number of repeats for the consistency.
        donor: Function that returns a donor turn.
        seed: Seed for degradations and resampling.
    """

    spec: JudgeSpec
    parts: Collection[str]
    repeats: int
    donor: FindDonor
    seed: int


class Experiments(ABC):
    """Runs the experiments with a judge, batch by batch.

    Args:
        outputs: Outputs whose response to degradations is measured.
    """

    def __init__(self, settings: ExperimentSettings, outputs: Collection[str]) -> None:
        self._spec = spec = settings.spec
        self._parts = settings.parts
        self._rounds = settings.repeats if "consistency" in settings.parts else 1
        self._donor = settings.donor
        self._seed = settings.seed
        self._probed = (
            [_Probed(probe, {output: [] for output in outputs}) for probe in probes_for(spec)]
            if "sensitivity" in settings.parts
            else []
        )
        self._repeated: dict[str, list[Repeated]] = {output.name: [] for output in spec.outputs}
        self._repeats_tally = Tally()
        self._unsteady = 0

    @abstractmethod
    def take(self, turns: Sequence[JudgedTurn]) -> None:
        """Run all experiments on a batch."""

    def as_json(self) -> dict[str, Any]:
        """Return the results of the audit parts by name."""
        made: dict[str, Any] = {}
        if "consistency" in self._parts:
            made["consistency"] = {
                "repeats": self._rounds,
                "outputs": {
                    score_name(self._spec.name, output): consistency(rows, seed=self._seed)
                    for output, rows in self._repeated.items()
                },
                "n_unsteady": self._unsteady,
                **self._repeats_tally.as_json(),
            }
        if "sensitivity" in self._parts:
            degradations = {probed.probe.name: self._probed_json(probed) for probed in self._probed}
            made["sensitivity"] = {"degradations": degradations}
        return made

    def _probed_json(self, probed: _Probed) -> dict[str, Any]:
        directed = {
            output.name
            for output in self._spec.outputs
            # A preference between two replies is always directional.
            if self._spec.kind is JudgeKind.PAIRWISE or output.higher_is_better is not None
        }
        control = "the unchanged turn" if probed.probe.control is None else "the method's artefacts alone"
        return {
            "title": probed.probe.title,
            "held_against": control,
            "outputs": {
                score_name(self._spec.name, output): degradation_effect(
                    rows, directed=output in directed, seed=self._seed
                )
                for output, rows in probed.rows.items()
            },
            **probed.tally.as_json(),
        }

    def _add_repeats(self, turns: Sequence[JudgedTurn], rounds: Sequence[Sequence[Judgement]]) -> None:
        for turn, judgements in zip(turns, zip(*rounds, strict=True), strict=True):
            scored = [values for values in map(self._repeats_tally.values, judgements) if values is not None]
            self._unsteady += 0 < len(scored) < len(judgements)
            for output, rows in self._repeated.items():
                values = tuple(given[output] for given in scored if output in given)
                if len(values) > 1:
                    rows.append(Repeated(turn.turn_id, turn.case.script_id, values))

    def _changed(
        self, probe: JudgeProbe, change: Change | None, turn: JudgedTurn
    ) -> JudgedTurn | Unscored | Failed:
        """Return the degraded turn, or why it cannot be degraded; without a change, the turn itself."""
        if change is None:
            return turn
        donor = turn if probe.donor is None else self._donor(turn, probe.donor)
        if donor is None:
            return Unscored(f"no other turn for {probe.title}")
        try:
            changed = change(turn, donor, self._seed)
        except Exception as error:
            return Failed(f"{probe.title}: the turn cannot be degraded: {type(error).__name__}: {error}")
        absent = missing(changed, self._spec.needs)
        return changed if absent is None else Unscored(f"{probe.title}: {absent}")


class SingleExperiments(Experiments):
    """The experiments for a judge of single turns."""

    def __init__(self, settings: ExperimentSettings, asker: Asker) -> None:
        self._asker = asker
        self._signs = {
            output.name: -1.0 if output.higher_is_better is False else 1.0 for output in settings.spec.outputs
        }
        super().__init__(settings, self._signs)

    def take(self, turns: Sequence[JudgedTurn]) -> None:
        """Run all experiments on a batch."""
        base = self._asker.judge(turns)
        if self._rounds > 1:
            again = [self._asker.judge(turns, number) for number in range(1, self._rounds)]
            self._add_repeats(turns, [base, *again])
        for probed in self._probed:
            self._try(probed, turns, base)

    def _try(self, probed: _Probed, turns: Sequence[JudgedTurn], base: Sequence[Judgement]) -> None:
        probe = probed.probe
        after = self._judged(probe, probe.change, turns)
        before = base if probe.control is None else self._judged(probe, probe.control, turns)
        for turn, clean, degraded in zip(turns, before, after, strict=True):
            first, second = (probed.tally.values(judgement) for judgement in (clean, degraded))
            if first is None or second is None:
                continue
            for output, sign in self._signs.items():
                if output in first and output in second:
                    row = Degraded(turn.case.script_id, sign * first[output], sign * second[output])
                    probed.rows[output].append(row)

    def _judged(self, probe: JudgeProbe, change: Change, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        """Return a judgement of each changed turn, or the reason why the turn could not be changed."""
        changed = [self._changed(probe, change, turn) for turn in turns]
        askable = [turn for turn in changed if isinstance(turn, JudgedTurn)]
        given = iter(self._asker.judge(askable))
        return [next(given) if isinstance(turn, JudgedTurn) else turn for turn in changed]


class PairExperiments(Experiments):
    """The experiments for a pairwise judge: every pair in both orders."""

    def __init__(self, settings: ExperimentSettings, asker: Asker, opponents: Opponents) -> None:
        self._asker = asker
        self._opponents = opponents
        self._output = settings.spec.outputs[0].name
        self._orders: list[BothOrders] = []
        self._tally = Tally()
        super().__init__(settings, [self._output])

    def take(self, turns: Sequence[JudgedTurn]) -> None:
        """Run all experiments on a batch."""
        if self._rounds > 1 or "order" in self._parts:
            self._compare(turns)
        for probed in self._probed:
            self._try(probed, turns)

    def _compare(self, turns: Sequence[JudgedTurn]) -> None:
        pairs: list[Pair] = []
        for turn in turns:
            other = self._opponents.of(turn)
            if isinstance(other, JudgedTurn):
                pairs.append((turn, other))
            else:
                self._tally.values(other)
        forward = self._asker.judge(pairs)
        if self._rounds > 1:
            again = [self._asker.judge(pairs, number) for number in range(1, self._rounds)]
            self._add_repeats([first for first, _ in pairs], [forward, *again])
        if "order" in self._parts:
            self._orders += self._both(pairs, forward, self._tally)

    def _both(self, pairs: Sequence[Pair], forward: Sequence[Judgement], tally: Tally) -> list[BothOrders]:
        rows: list[BothOrders] = []
        backward = self._asker.judge(swapped(pairs))
        for (turn, _), one, other in zip(pairs, forward, backward, strict=True):
            first, second = tally.values(one), tally.values(other)
            if first is not None and second is not None:
                verdicts = first[self._output], second[self._output]
                rows.append(BothOrders(turn.turn_id, turn.case.script_id, *verdicts))
        return rows

    def _try(self, probed: _Probed, turns: Sequence[JudgedTurn]) -> None:
        pairs: list[Pair] = []
        for turn in turns:
            changed = self._changed(probed.probe, probed.probe.change, turn)
            original = self._changed(probed.probe, probed.probe.control, turn)
            if not isinstance(changed, JudgedTurn):
                probed.tally.values(changed)
            elif not isinstance(original, JudgedTurn):
                probed.tally.values(original)
            else:
                pairs.append((original, changed))
        # 0 if the degraded reply is as good, −1 if it loses in both orders
        probed.rows[self._output] += [
            Degraded(row.script_id, 0.0, (row.backward - row.forward) / 2)
            for row in self._both(pairs, self._asker.judge(pairs), probed.tally)
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the results of the audit parts by name."""
        made = super().as_json()
        about = {"held_against": self._opponents.name}
        if "consistency" in made:
            made["consistency"] = about | made["consistency"]
        if "order" in self._parts:
            effect = order_effect(self._orders, seed=self._seed)
            made["order"] = about | effect | self._tally.as_json()
        return made
