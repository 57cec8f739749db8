"""Present a trial on the page: its row in the list, and its details on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.outcomes import Rule
from live_eval.analysis.turn_taking.speech import Conversation, Stretch, overlaps
from live_eval.analysis.turn_taking.trial import TrialResult
from live_eval.audio.peaks import length_s, peaks
from live_eval.report.cells import number
from live_eval.report.duplex.glossary import DURATION_TITLES, MARK_TITLES, SPEECH_TITLES, spelt
from live_eval.report.embedded_audio import drawn_envelope
from live_eval.report.file_names import RUN_PAGE
from live_eval.report.pages import script_json

__all__ = ["TELLING", "TrialView", "trial_row"]

TELLING = {
    Rule.ANSWER: ("response_latency",),
    Rule.PAUSE: ("response_latency", "pause_endpointing"),
    Rule.INTERRUPTION: ("audible_stop", "provider_stop", "new_reply"),
    Rule.BEFORE_REPLY: ("response_latency",),
    Rule.BACKCHANNEL: ("audible_stop", "provider_stop", "resume"),
    Rule.FALSE_TRIGGER: ("trigger",),
}
"""The most informative durations of a trial, by rule, the main one first."""

_NEAR_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class TrialView:
    """A trial or a repetition.

    Args:
        key: Key of the row on the page.
        side: Index of the side, which determines the colour.
        number: Position in the run.
        run: Run folder, relative to the campaign folder.
        base: Link from the page to the campaign folder, with a trailing slash; empty if they are the same.
    """

    key: str
    side: int
    number: int
    run: str
    base: str
    played: TrialResult

    @property
    def name(self) -> str:
        """The trial's name and the repetition number, if any."""
        again = self.played.playing
        return self.played.facts.trial_id + (f", repetition {again}" if again else "")

    @property
    def href(self) -> str:
        """The link to the trial's details."""
        return f"#{self.key}"

    @property
    def verdict(self) -> str:
        """``pass``, ``fail``, ``void`` or ``failed``."""
        if self.played.failure is not None:
            return "failed"
        passed = self.played.passed
        return "void" if passed is None else "pass" if passed else "fail"

    def milliseconds(self, duration: str) -> float | None:
        """Return a duration in milliseconds; None if it is missing."""
        ns = self.played.judgement.durations_ns.get(duration)
        return None if ns is None else ns / 1e6


def trial_row(
    view: TrialView,
    both: tuple[NDArray[np.int16], int] | None,
    sounds: Sequence[tuple[str, str]] = (),
    problem: str = "",
) -> Mapping[str, Any]:
    """Return the template's values for a trial's row.

    Args:
        both: Audio of both sides on the trial's time axis, int16, shape (samples, 2), and its sample rate;
            None if missing.
        sounds: Side of each audio file, and the link from the campaign folder to the file.
        problem: Reason for missing audio; empty if there is none.

    Returns:
        The template's values. `values` contains pairs of text and sort key, `measured` is the name of the
        first one, `search` is the searchable text, and `details` is JSON.
    """
    played = view.played
    name = TELLING[played.rule][0]
    value, lag = view.milliseconds(name), played.lag_ns / 1e6
    texts = [text for _, text in _texts(played)]
    linked = tuple((side, view.base + href) for side, href in sounds)
    return {
        "view": view,
        "badges": list(_badges(view)),
        "values": [(number(value), value), (number(lag, 1), lag)],
        "measured": DURATION_TITLES[name],
        "search": " ".join([view.name, played.judgement.reason, *texts]).lower(),
        "sounds": linked,
        "details": script_json(_details(view, both, linked, problem)),
    }


def _badges(view: TrialView) -> Iterator[tuple[str, str]]:
    if any(turn.timing.flagged for turn in view.played.turns):
        yield "flagged", "lag"
    if view.played.playing:
        yield "again", "repeated"
    for where, found in view.played.correction.items():
        if found is not None:
            yield ("taken" if found else "missed"), f"correction {'' if found else 'not '}in {where}"


def _details(
    view: TrialView,
    both: tuple[NDArray[np.int16], int] | None,
    sounds: Sequence[tuple[str, str]],
    problem: str,
) -> dict[str, Any]:
    played = view.played
    conversation = played.conversation
    loudness = None if both is None else peaks(*both)
    moments = [] if conversation is None else _marks(played, conversation)
    return {
        "reason": played.judgement.reason,
        "verdict": view.verdict,
        "texts": _texts(played),
        "durations": [
            [DURATION_TITLES.get(name, spelt(name)), None if ns is None else ns / 1e6]
            for name, ns in played.judgement.durations_ns.items()
        ],
        "facts": [*_facts(view), *([["audio", problem]] if problem else [])],
        "turns": [
            [turn.turn_id, f"{view.base}{quote(view.run)}/{RUN_PAGE}#turn={quote(turn.turn_id, safe='')}"]
            for turn in played.turns
        ],
        "marks": moments,
        "shades": [] if conversation is None else _shades(conversation),
        "zoom": _zoom(moments),
        "said": "" if conversation is None else _in_words(conversation),
        "seconds": 0.0 if loudness is None else length_s(loudness),
        "envelope": None if loudness is None else drawn_envelope(loudness),
        "sounds": [list(sound) for sound in sounds],
    }


def _marks(played: TrialResult, conversation: Conversation) -> list[list[Any]]:
    """Return the marks that determine the outcome, in order, in seconds on the trial's time axis."""
    moments = sorted(played.judgement.marks_ns.items(), key=lambda mark: mark[1])
    return [
        [name.replace("_", "-"), MARK_TITLES.get(name, spelt(name)), _seconds(conversation, at)]
        for name, at in moments
    ]


def _seconds(conversation: Conversation, at_ns: int) -> float:
    """Convert an absolute time to seconds on the trial's time axis."""
    return (at_ns - conversation.start_ns) / 1e9


def _zoom(moments: Sequence[Sequence[Any]]) -> dict[str, Any] | None:
    if not moments:
        return None
    title = "Zoom to the marks"
    return {"title": title, "from": moments[0][2] - _NEAR_S, "to": moments[-1][2] + _NEAR_S}


def _shades(conversation: Conversation) -> list[list[Any]]:
    """Return the audible segments of each side and their overlaps, for the page's script."""

    def shade(lane: int | None, kind: str, sound: Stretch) -> list[Any]:
        start, end = (_seconds(conversation, at) for at in sound)
        return [lane, kind, start, end]

    user = [sound for speech in conversation.user for sound in speech.sounds]
    agent = [sound for speech in conversation.agent for sound in speech.sounds]
    return [
        *(shade(None, "overlap", both) for both in overlaps(user, agent)),
        *(shade(0, "user-sound", sound) for sound in user),
        *(shade(1, "endpoint-sound", sound) for sound in agent),
    ]


def _in_words(conversation: Conversation) -> str:
    """Describe the audible segments for screen readers."""

    def stretches(sounds: Sequence[Stretch]) -> str:
        spans = (" to ".join(f"{_seconds(conversation, at):.2f}" for at in sound) for sound in sounds)
        return ", ".join(spans)

    said = [("the user speaks", speech.sounds) for speech in conversation.user]
    said += [("the endpoint is heard", speech.sounds) for speech in conversation.agent if speech.sounds]
    parts = [f"{who} {stretches(sounds)}" for who, sounds in sorted(said, key=lambda each: each[1])]
    return f"In seconds: {'; '.join(parts)}." if parts else ""


def _texts(played: TrialResult) -> list[list[str]]:
    """Return the texts of both sides in chronological order, and the endpoint's transcript of the user."""
    conversation = played.conversation
    said: list[tuple[int, str, str]]
    if conversation is None:
        said = [(0, SPEECH_TITLES[turn.case.speech], turn.case.text or "") for turn in played.turns]
    else:
        said = [(speech.start_ns, SPEECH_TITLES[speech.kind], speech.text) for speech in conversation.user]
        said += [
            (
                at if (at := speech.began_ns) is not None else conversation.end_ns,
                f"Endpoint, response {place}",
                speech.text,
            )
            for place, speech in enumerate(conversation.agent, 1)
        ]
    heard = [
        ["Heard by the endpoint's transcriber", turn.heard_text] for turn in played.turns if turn.heard_text
    ]
    return [*([title, text] for _, title, text in sorted(said, key=lambda each: each[0]) if text), *heard]


def _facts(view: TrialView) -> list[list[str]]:
    played = view.played
    ratio = played.judgement.talk_ratio
    triggers = played.judgement.triggers
    facts = {
        "tested": spelt(played.rule),
        "talk ratio, endpoint to user": "" if ratio is None else number(ratio, 2),
        "unprompted responses": "" if triggers is None else str(triggers),
        "the endpoint heard the sound": {None: "", True: "yes", False: "not known"}[played.sound_heard],
        "error bar (lag)": f"{number(played.lag_ns / 1e6, 1)} ms",
        "run": view.run,
    }
    if played.failure is not None:
        facts["failure"] = f"{played.failure.kind.value}: {played.failure.message}"
    return [[name, text] for name, text in facts.items() if text]
