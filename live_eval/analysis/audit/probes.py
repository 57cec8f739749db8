"""List the known degradations, and select those that a judge can detect. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from live_eval.analysis.audit.degradations import (
    add_noise,
    clip,
    drop_frames,
    flatten,
    halve_words,
    resynthesise,
    shuffle_words,
)
from live_eval.audio import Audio
from live_eval.judging import JudgedTurn, JudgeKind, JudgeSpec, Need

__all__ = ["Change", "DonorKind", "JudgeProbe", "probes_for"]

Change: TypeAlias = Callable[[JudgedTurn, JudgedTurn, int], JudgedTurn]
"""A function that degrades a turn, given a donor turn (the turn itself if none is needed) and a seed."""


class DonorKind(StrEnum):
    """The kind of a degradation's donor turn."""

    EMOTION = "emotion"
    """A turn with another cue."""
    WORDS = "words"
    """A turn of another script that contains words."""


@dataclass(frozen=True, slots=True)
class JudgeProbe:
    """A known degradation.

    Args:
        name: Name in the report.
        change: Function that degrades a turn.
        donor: Kind of donor turn, or None.
        control: Function that processes the turn in the same way, but without the degradation, for
            comparison; None to compare with the unchanged turn.
    """

    name: str
    title: str
    change: Change
    donor: DonorKind | None = None
    control: Change | None = None


def probes_for(spec: JudgeSpec) -> list[JudgeProbe]:
    """Return the degradations that affect a judge's inputs.

    A pairwise judge compares replies to the same case, so degradations that swap cases do not apply.
    """
    looks_at = spec.needs | spec.uses
    probes: list[JudgeProbe] = []
    if Need.REPLY_AUDIO in spec.needs:
        probes += _AUDIO_PROBES
    if spec.kind is not JudgeKind.PAIRWISE and looks_at & {Need.CUE, Need.REFERENCE_AUDIO}:
        with_speaker = Need.SPEAKER_AUDIO in looks_at
        probes.append(
            JudgeProbe(
                "wrong_emotion",
                "another turn's cue",
                lambda turn, donor, seed: _with_voice_of(donor, turn, with_speaker=with_speaker),
                DonorKind.EMOTION,
            )
        )
    if spec.needs & {Need.REPLY_TEXT, Need.HEARD_TEXT}:
        probes += _words(spec.needs)
    return probes


def _on_audio(change: Callable[[Audio, int], Audio]) -> Change:
    def changed(turn: JudgedTurn, donor: JudgedTurn, seed: int) -> JudgedTurn:
        assert turn.reply is not None  # the judge requires it, and the turn can be judged
        return replace(turn, reply=change(turn.reply, _seed(turn, seed)))

    return changed


_AUDIO_PROBES = (
    JudgeProbe("noise_10db", "noise 10 dB", _on_audio(lambda reply, seed: add_noise(reply, 10.0, seed))),
    JudgeProbe("noise_0db", "noise 0 dB", _on_audio(lambda reply, seed: add_noise(reply, 0.0, seed))),
    JudgeProbe("clipping", "clipping 10 %", _on_audio(lambda reply, seed: clip(reply, 0.1))),
    JudgeProbe("dropouts", "dropouts 10 %", _on_audio(lambda reply, seed: drop_frames(reply, 0.1, seed))),
    JudgeProbe(
        "flat",
        "flat delivery",
        _on_audio(lambda reply, seed: flatten(reply)),
        control=_on_audio(lambda reply, seed: resynthesise(reply)),
    ),
)


def _with_voice_of(donor: JudgedTurn, turn: JudgedTurn, *, with_speaker: bool) -> JudgedTurn:
    """Replace the user's voice with that of the donor turn.

    A judge that uses the user's audio receives the donor's audio and words.
    """
    case = replace(
        turn.case,
        cue=donor.case.cue,
        script_cue=donor.case.script_cue,
        reference_audio_path=donor.case.reference_audio_path,
        text=donor.case.text if with_speaker else turn.case.text,
    )
    speaker = donor.speaker if with_speaker else turn.speaker
    return replace(turn, case=case, reference=donor.reference, speaker=speaker)


def _words(needs: frozenset[Need]) -> Sequence[JudgeProbe]:
    """Return the degradations of the text that a judge reads: the reply, or else the user's transcript."""
    of_reply = Need.REPLY_TEXT in needs

    def on_words(change: Callable[[str, str, int], str]) -> Change:
        def changed(turn: JudgedTurn, donor: JudgedTurn, seed: int) -> JudgedTurn:
            if of_reply:
                text = change(turn.reply_text or "", donor.reply_text or "", _seed(turn, seed))
                return replace(turn, reply_text=text)
            text = change(turn.heard_text or "", donor.heard_text or "", _seed(turn, seed))
            return replace(turn, heard_text=text)

        return changed

    return (
        JudgeProbe(
            "other_words",
            "another case's words",
            on_words(lambda mine, others, seed: others),
            DonorKind.WORDS,
        ),
        JudgeProbe(
            "shuffled_words", "shuffled words", on_words(lambda mine, others, seed: shuffle_words(mine, seed))
        ),
        JudgeProbe(
            "half_the_words", "half of the words", on_words(lambda mine, others, seed: halve_words(mine))
        ),
    )


def _seed(turn: JudgedTurn, seed: int) -> int:
    """Return a seed for a turn, independent of the other turns."""
    return zlib.crc32(f"{seed} {turn.turn_id}".encode())
