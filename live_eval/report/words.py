"""The notes and definitions in a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_eval.analysis.statistics.intervals import LEVEL, MIN_BEYOND, MIN_CLUSTERS, RESAMPLES
from live_eval.recording import part_of
from live_eval.timing import AUDIBLE_DBFS, LAG_BOUND_NS

__all__ = ["DEFINITIONS", "LAG_BOUND_MS", "LAG_NOTE", "licence_note"]

LAG_BOUND_MS = LAG_BOUND_NS // 1_000_000

LAG_NOTE = (
    f"Lag is how late the harness itself was on a turn; beyond {LAG_BOUND_MS} ms a turn is flagged, and "
    "percentiles are given without the flagged turns too."
)

DEFINITIONS = (
    (
        "end of speech",
        "the last sample of the speaker's own sound in the recording, breath, sigh and laughter included, "
        "background not; a sample is spoken when a microphone would have heard it",
    ),
    ("connect", "from dialling until the endpoint's session is ready"),
    (
        "endpointing",
        "from the end of speech until the endpoint says that speech stopped, or accepts our commit where we "
        "end the turn (manual turns); the two are never pooled",
    ),
    ("first byte", "from the end of speech until the first audio of the reply arrives"),
    (
        "voice to voice",
        "from the end of speech until the first audible sample of the reply as a listener with no jitter "
        f"buffer would hear it: the first 10 ms above {AUDIBLE_DBFS:.0f} dBFS that last 30 ms",
    ),
    ("lead silence", "from the first byte until the first audible sample"),
    ("transcript", "from the end of speech until the first text of the reply arrives"),
    (
        "barge-in stop",
        "from the moment the user begins to speak over the reply until its last audible sample is heard",
    ),
    (
        "n, and turns without",
        "percentiles rest on n captured turns; of latencies from the end of speech, turns whose end is "
        "uncertain are given separately; turns without the latency (failed or unanswered ones) are counted "
        "and are in no percentile. The three add up to the turns of the run. Negative latencies stay",
    ),
    (
        "scores",
        "means over the turns scored; unscored turns are without the data that the judge needs (failed turns "
        "among them); on failed ones the judge broke. n, unscored and failed add up to the turns of the "
        "judge's tasks",
    ),
    (
        "intervals",
        f"{100 * LEVEL:.0f} % by a bootstrap of {RESAMPLES} resamples that draws whole scripts, because the "
        "variants of a script are not independent; percentile intervals, widened for few scripts (Hesterberg "
        f"2015). None is given for fewer than {MIN_CLUSTERS} scripts, for a percentile with fewer than "
        f"{MIN_BEYOND} values expected beyond it, or for a mean of values that are all alike",
    ),
    (
        "against another run",
        "the difference over the cases that both runs have, paired by case, averaged within scripts and then "
        "over them, and resampled by script; the means next to it are over turns and may differ by another "
        "amount",
    ),
)


def licence_note(manifest: Mapping[str, Any]) -> str:
    """Return the licence note for a page that contains the run's recordings and texts."""
    if part_of(part_of(manifest, "config"), "data").get("path") == "sample":
        return "The recordings are the bundled sample, which comes under the project's licence, Apache-2.0."
    if part_of(manifest, "data").get("kind") == "echomind":
        return (
            "The recordings and reference replies are EchoMind's, CC BY-NC-SA 4.0: this page holds parts of "
            "them and may be passed on under the same terms only."
        )
    return "The recordings and reference replies keep the licence of their data set."
