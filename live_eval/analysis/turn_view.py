"""Present a stored turn to reports, the studio and exports: record, scores, latencies and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.analysis.greeting_summary import greetings_of
from live_eval.analysis.summary.latencies import LATENCIES
from live_eval.analysis.summary.observations import counted_ns, failure_cause, latency
from live_eval.analysis.summary.score_table import ScoreCell, ScoreTable
from live_eval.analysis.summary.vocal_sounds import has_vocal_sound, vocal_sound_latencies
from live_eval.audio.peaks import length_s
from live_eval.judging import TURN_FAILED, JudgeRole
from live_eval.recording import TurnRecord
from live_eval.timing import Latency, ResponseRecord

__all__ = ["TimelineMark", "TurnView", "milliseconds"]


@dataclass(frozen=True, slots=True)
class TimelineMark:
    """A mark on a turn's timeline; its time is in seconds from the session's sample 0."""

    kind: str
    title: str
    at_s: float


@dataclass(frozen=True, slots=True, eq=False)
class TurnView:
    """A stored turn with its scores.

    Args:
        table: Scores that include this turn.
        folder: Run folder, to which audio paths are relative.
        lost_audio: Reason for missing audio; empty if the audio exists.
    """

    record: TurnRecord
    table: ScoreTable
    folder: Path
    lost_audio: str = ""

    @property
    def turn_id(self) -> str:
        """The turn's ID, unique within the run."""
        return self.record.turn_id

    @property
    def status(self) -> str:
        """``captured`` or ``failed``."""
        return "captured" if self.record.captured else "failed"

    @property
    def warnings(self) -> list[str]:
        """The kinds of the turn's warnings."""
        return [warning.kind.value for warning in self.record.warnings]

    @property
    def dialogue_index(self) -> int | None:
        """The turn's index in its dialogue, from 0; None outside a dialogue."""
        return None if self.record.case.dialogue_id is None else self.record.case.turn_index

    @property
    def seconds(self) -> float:
        """The length of both sides' audio; 0 if there is none."""
        peaks = self.record.envelope
        return 0.0 if peaks is None else length_s(peaks)

    @property
    def latencies(self) -> dict[str, Latency]:
        """The latencies, or the reasons for missing ones."""
        return {name: latency(self.record.timing, name) for name in LATENCIES}

    @property
    def vocal_sounds(self) -> dict[str, Latency]:
        """The latencies from the last word and the last sound, or the reasons for missing ones."""
        turn = self.record
        return vocal_sound_latencies(turn.case, turn.trace.boundaries, turn.timing.voice_to_voice)

    @property
    def shown_latencies(self) -> dict[str, Latency]:
        """The latencies to display; if the cue is a vocal sound, its latencies are included."""
        return self.latencies | (self.vocal_sounds if has_vocal_sound(self.record.case) else {})

    @property
    def counted_ms(self) -> dict[str, float | None]:
        """The latencies in milliseconds, including those of vocal sounds, without those of a failed turn.

        Statistics also exclude some latencies from an uncertain end of speech (see `has_uncertain_start`).
        """
        timing, failed_by = self.record.timing, failure_cause(self.record)
        counted = {name: counted_ns(timing, name, failed_by) for name in LATENCIES}
        counted |= {
            name: found.ns if failed_by is None else None for name, found in self.vocal_sounds.items()
        }
        return {name: milliseconds(ns) for name, ns in counted.items()}

    @property
    def scores(self) -> dict[str, ScoreCell]:
        """The scores, or the reasons for missing ones, by column name; a failed turn has no scores."""
        turn = self.record
        cells = self.table.cells(turn.turn_id, turn.case.task)
        if turn.captured:
            return cells
        none = ScoreCell("unscored", None, TURN_FAILED)
        return {name: cell if cell.value is None else none for name, cell in cells.items()}

    @property
    def chosen(self) -> str | None:
        """The letter of the option that the reply chooses."""
        return self.table.chosen(self.turn_id)

    @property
    def read_as(self) -> str | None:
        """The judge's reading of the answer to a question; None if it was not judged."""
        row = self.table.row(self.turn_id, JudgeRole.MULTIPLE_CHOICE)
        if row is None or row.status != "scored":
            return None
        return self.chosen or "no single option"

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The turn's texts with titles."""
        case, question = self.record.case, None
        if case.question is not None:
            options = " ".join(f"{letter}. {text}" for letter, text in case.question.options)
            question = f"{case.question.text} {options} (key: {case.question.answer or 'none'})"
        texts = {
            "Script": case.text,
            "Question": question,
            "Heard by the endpoint's transcriber": self.record.heard_text,
            "Reply": self.record.reply_text,
            "Read as": self.read_as,
            "Reference reply": case.reference_text,
        }
        return [(title, text) for title, text in texts.items() if text]

    @property
    def judgements(self) -> list[dict[str, Any]]:
        """The judgements of the turn as JSON values; for a failed turn, only those without scores."""
        return [
            {
                "judge": row.judge,
                "version": row.version,
                "status": row.status,
                "reason": row.reason or None,
                "detail": dict(row.detail),
            }
            for row in self.table.rows.get(self.turn_id, {}).values()
            if self.record.captured or row.status != "scored"
        ]

    @property
    def marks(self) -> list[TimelineMark]:
        """The marks on its timeline, in order; empty if no audio was sent."""
        trace, timing = self.record.trace, self.record.timing
        if trace.t0_ns is None:
            return []
        marks: list[tuple[str, str, int | None]] = [("end", "end of speech", trace.voice_end_ns)]
        if trace.voice_end_ns is not None:
            marks += [
                (kind, title, None if found.ns is None else trace.voice_end_ns + found.ns)
                for kind, title, found in (
                    ("endpointing", "end of speech detected", timing.endpointing),
                    ("byte", "first byte", timing.first_byte),
                    ("audible", "first audible sample", timing.voice_to_voice),
                )
            ]
        marks.append(("barge", "user barges in", trace.barge_in_ns))
        if (answer := self.record.headline) is not None:
            marks += [
                ("interrupted", "interrupted", answer.interrupted_ns),
                ("done", "response done", answer.done_ns),
            ]
        if (failure := self.record.failure) is not None:
            marks.append(("failed", failure.kind.value.replace("_", " "), failure.at_ns))
        placed = [
            TimelineMark(kind, title, (at_ns - trace.t0_ns) / 1e9)
            for kind, title, at_ns in marks
            if at_ns is not None
        ]
        return sorted(placed, key=lambda mark: mark.at_s)

    def responses(
        self, unit: str, since: Callable[[int | None], float | None]
    ) -> Iterator[tuple[ResponseRecord, dict[str, Any]]]:
        """Yield each response with texts and times, as JSON values.

        Args:
            unit: Unit of the times, which is the suffix of their keys.
            since: Function that converts a session time to this unit.
        """
        for marks in self.record.responses:
            times = {
                "created": marks.created_ns,
                "first_text": marks.first_text_ns,
                "first_audio": marks.audio_began_ns,
                "done": marks.done_ns,
                "interrupted": marks.interrupted_ns,
            }
            yield (
                marks,
                {
                    "response_id": marks.response_id,
                    "status": marks.status.value,
                    "reason": marks.reason or None,
                    "text": marks.text,
                    **{f"{name}_{unit}": since(at_ns) for name, at_ns in times.items()},
                },
            )

    def audio_path(self, file: Path | None) -> str | None:
        """Return an audio path relative to the run folder, so that it stays valid if the folder is moved."""
        # much faster than `relative_to`
        return None if file is None else file.as_posix().removeprefix(f"{self.folder.as_posix()}/")

    @property
    def notes(self) -> Mapping[str, str]:
        """Further facts about the turn as text, by name."""
        turn, timing = self.record, self.record.timing
        greeting = next(greetings_of([turn]), None)
        notes: dict[str, object] = {
            "cue": turn.case.cue and turn.case.cue.phrase,
            "topic": turn.case.topic,
            "attempt": turn.attempt > 1 and turn.attempt,
            "playout underruns": timing.stalls and f"{timing.stalls}, {timing.stalled_ns / 1e6:.0f} ms",
            "greeting": greeting
            and f"the endpoint spoke first, for {greeting.heard_s:.1f} s"
            f"{', the user spoke over it' if greeting.spoken_over else ''}",
            "premature responses": timing.premature,
            "frames late": turn.late_speech_frames,
            "packets": turn.media and f"{turn.media.packets}, {turn.media.lost} lost",
            "setup": ", ".join(f"{name} {ns / 1e6:.0f} ms" for name, ns in turn.trace.setup_ns.items()),
            "session": turn.session_id,
            "model": turn.model,
            # A page must not reveal local paths.
            "recording": "/".join(turn.case.audio_path.as_posix().split("/")[-2:]),
            "both sides": self.audio_path(turn.both_file),
            "reply": self.audio_path(turn.reply_file),
            "audio lost": self.lost_audio,
        }
        return {name: str(note) for name, note in notes.items() if note}


def milliseconds(ns: int | None) -> float | None:
    """Return a duration in milliseconds, rounded to microseconds, or None."""
    return None if ns is None else round(ns / 1e6, 3)
