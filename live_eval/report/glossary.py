"""Define the terms in reports, on the pages of latency campaigns, and in the studio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from live_eval.analysis.licences import licence_of
from live_eval.analysis.statistics.intervals import LEVEL, MIN_BEYOND, MIN_CLUSTERS, RESAMPLES
from live_eval.analysis.summary.latencies import LATENCIES
from live_eval.analysis.summary.vocal_sounds import DEFINITIONS_OF_A_TURN, TITLES_OF_A_TURN
from live_eval.recording import part_of
from live_eval.text.wording import sentence
from live_eval.timing import LAG_BOUND_NS

__all__ = [
    "CAMPAIGN_DEFINITIONS",
    "DEFINITIONS",
    "LAG_BOUND_MS",
    "LAG_NOTE",
    "defined_terms",
    "licence_note",
    "studio_terms",
    "term_id",
]

LAG_BOUND_MS = LAG_BOUND_NS // 1_000_000

LAG_NOTE = (
    f"Lag is live-eval's own lateness on a turn. Above {LAG_BOUND_MS} ms a turn is flagged, and "
    "percentiles are also given without flagged turns."
)

_END_OF_SPEECH = (
    "end of speech",
    "the last sample of the speaker's own voice in the recording, including breath, sigh and laughter, "
    "excluding background; a sample is spoken when a microphone would have captured it",
)


def _latencies(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((TITLES_OF_A_TURN[name], DEFINITIONS_OF_A_TURN[name]) for name in names)


DEFINITIONS = (
    _END_OF_SPEECH,
    *_latencies(TITLES_OF_A_TURN),
    (
        "cue sensitivity",
        "how much replies differ between styles of a script, beyond their difference between repeats of one "
        "recording, relative to replies to other scripts: 0 if another style changes no more than a repeat, "
        "1 if it changes as much as different words. Styles are permuted for the test; the interval "
        "resamples scripts",
    ),
    (
        "by cue",
        "turns by the cue of their recording: a property of the speaker's voice, or a background sound. "
        "Scores are means and latencies medians over turns; the shade of a cell is its position between the "
        f"worst and the best cue of its column, and cells with fewer than {MIN_CLUSTERS} scripts are "
        "hatched; latencies from the last sound have another definition than their column, and no shade",
    ),
    (
        "turn",
        "an utterance of the user and the endpoint's reaction, until the next utterance",
    ),
    ("captured", "a turn that ended normally with a reply; otherwise it is failed"),
    (
        "lag",
        "live-eval's own lateness on a turn, the error bar of its latencies; above "
        f"{LAG_BOUND_MS} ms a turn is flagged, and percentiles are also given without flagged turns",
    ),
    ("task", "conversation, transcription, understanding or reasoning: the levels of the benchmark"),
    (
        "front",
        "the Pareto front: the runs, or turns, for which no other is at least as fast and as good, and "
        "better in one respect",
    ),
    (
        "n, missing",
        "n is the number of captured turns in a percentile. For latencies measured from the end of speech, "
        "turns with an uncertain end are reported separately. Missing turns (failed or unanswered) have no "
        "such latency and are not part of any percentile. The three add up to the turns of the run. "
        "Negative latencies are kept",
    ),
    (
        "scores",
        "means over scored turns. A turn is unscored if data that the judge needs is missing (failed turns "
        "included), and failed if the judge itself failed. n, unscored and failed add up to the turns of "
        "the judge's tasks",
    ),
    (
        "intervals",
        f"{100 * LEVEL:.0f} %, by a bootstrap of {RESAMPLES} resamples that draws whole scripts, because the "
        "variants of a script are not independent; percentile intervals, widened for small samples "
        f"(Hesterberg 2015). There is no interval for fewer than {MIN_CLUSTERS} scripts, for a percentile "
        f"with fewer than {MIN_BEYOND} expected values beyond it, or for a mean of equal values",
    ),
    (
        "against another run",
        "the difference on the cases of both runs: paired by case, averaged within scripts and then over "
        "scripts, resampled by script. The means next to it are over turns, so subtracting "
        "them can give a different value",
    ),
)

CAMPAIGN_DEFINITIONS = (
    _END_OF_SPEECH,
    *_latencies(name for name in LATENCIES if name != "barge_in_stop"),
    ("complete", "from the end of speech to the endpoint's report that the reply is complete"),
    ("start delay", "from the intended start of a session to dialling; open loop only"),
    (
        "from intended start",
        "the latency plus the start delay. In a closed loop, and in an open loop measured from dialling, "
        "sessions that wait while the endpoint stalls are missing from the percentiles (coordinated "
        "omission)",
    ),
    (
        "waterfall",
        "time spent waiting: until the session is ready, then from the end of speech until the reply is "
        "complete; the user's own speech is excluded. Each step counts the time beyond the previous steps: "
        "the steps of a turn add up to its total, and the means to the mean total, but medians do not",
    ),
    ("stalls", "playout underruns per minute of reply audio, for jitter buffers of several depths"),
    (
        "delivery rate",
        "the length of the reply's audio divided by the time in which it arrived: 1 is the pace of speech",
    ),
    (
        "endpointing cost",
        "voice to voice with the endpoint's detector minus voice to voice with manual turns, on the same "
        "recordings, paired by case: the mean difference, next to the medians of both sides",
    ),
    (
        "premature, early, flagged",
        "premature responses were cancelled because the user continued; early turns were answered before the "
        "end of speech; on flagged turns live-eval itself ran late",
    ),
)

_STUDIO_DEFINITIONS = (
    (
        "latency of a turn",
        "the times from the end of the user's speech to the events of the reply, on one clock; select a "
        "value to play its audio. The lag is live-eval's own lateness, the error bar of the latencies",
    ),
    (
        "scores of a turn",
        "the judges' values for the turn; select a value to play the speech that it rates. A missing value "
        "has a reason",
    ),
    ("review", "labels and a note on the turn; they are stored next to the run and exported with its turns"),
    (
        "transcript",
        "what both sides said, in the order in which it was heard: the user's text from the data or, without "
        "a script, the endpoint's transcript of it; the endpoint's text from its own messages",
    ),
    ("judgements", "the judges' reasons for the scores of the turn, and the values on which these are based"),
    (
        "responses",
        "the endpoint's responses during the turn. The answer is the first response that ended after the "
        "user began to speak and was not cancelled because the same utterance continued",
    ),
    (
        "case and conditions",
        "the texts and settings of the case, and the conditions of the turn, as the run stores them",
    ),
    (
        "protocol messages",
        "the messages between live-eval and the endpoint, without their audio; times are in seconds of the "
        "recording",
    ),
    (
        "comparison",
        "the runs on their common cases. A difference is paired by case, averaged within scripts and then "
        "over scripts; its 95 % interval resamples scripts",
    ),
    (
        "by ear",
        "the replies of every run to the same case on one axis, so that switching runs continues at the "
        "same place",
    ),
    (
        "compared values",
        "means over scripts of the cases of both runs, and their paired differences. The values of a run's "
        "own page cover all its turns and can differ from these",
    ),
    (
        "settings that differ",
        "the settings of the runs that are not equal: a difference may have any of these causes",
    ),
)


def defined_terms() -> dict[str, str]:
    """Return the definitions of the terms in a report, one sentence each."""
    return _sentences(DEFINITIONS)


def studio_terms() -> dict[str, str]:
    """Return the definitions of the terms in the studio, one sentence each."""
    return _sentences((*DEFINITIONS, *_STUDIO_DEFINITIONS))


def _sentences(definitions: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: sentence(text) for name, text in definitions}


def term_id(name: str) -> str:
    """Return the element ID of a term's definition on a page.

    >>> term_id("n, missing"), term_id("voice to voice")
    ('term-n', 'term-voice-to-voice')
    """
    return f"term-{name.split(',')[0].replace(' ', '-')}"


def licence_note(manifest: Mapping[str, Any]) -> str:
    """Return the licence note for a page that contains a run's recordings and texts."""
    if part_of(part_of(manifest, "config"), "data").get("path") == "sample":
        return "The recordings are the bundled sample, under the project's licence, Apache-2.0."
    if licence := licence_of(manifest):
        return f"{licence}."
    if part_of(manifest, "data").get("kind") == "live":
        return "The recordings are of the person who spoke: share this page only with their consent."
    if part_of(manifest, "data").get("kind") == "echomind":
        return (
            "The recordings and reference replies are EchoMind's, under CC BY-NC-SA 4.0: this page contains "
            "parts of them and may be shared only under the same terms."
        )
    return "The recordings and reference replies keep the licence of their data set."
