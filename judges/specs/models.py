"""Specify the judges that call a model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from live_eval.judging import (
    JudgeKind,
    JudgeRole,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    Need,
    OptionSpec,
    OutputSpec,
    RatingScale,
)
from live_eval.types import Task

__all__ = [
    "ARENA",
    "AUDIO_MODEL",
    "BENCHMARK_MODEL",
    "RUBRIC",
    "SMALL_TEXT_MODEL",
    "TEXT_MODEL",
    "VES",
]

TEXT_MODEL = "gpt-4o"
SMALL_TEXT_MODEL = "gpt-4o-mini"
AUDIO_MODEL = "gemini-2.5-pro"
_GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"


_rating = partial(OutputSpec, unit="of 5", low=1.0, high=5.0)
_audio_model = partial(
    JudgeSpec, packages=("openai",), key_variable="GEMINI_API_KEY", base_url=_GEMINI, model=AUDIO_MODEL
)

_PROMPT = OptionSpec(name="prompt", help="a prompt file to use instead of the built-in prompt", is_file=True)
_ECHOMIND = "Zhou et al.: EchoMind (ICLR 2026)"

# Questions, anchors and notes, equal to those in prompts/rubric.md and prompts/ves.md (a test compares them).
_CONTEXT_FIT = RatingScale(
    "Context fit: does the reply fit the topic and respond to what was said?",
    (
        "unrelated to both the topic and what was said",
        "touches on the topic but misses what was said",
        "on topic, but parts of it are wrong, missing or out of place",
        "fits, with one minor weakness",
        "fits completely and carries the conversation forward",
    ),
)
_NATURALNESS = RatingScale(
    "Response naturalness: would a person say this in a conversation?",
    (
        "stiff and robotic, like an announcement being read out",
        "mostly robotic, with phrases that nobody uses in conversation",
        "fluent but formulaic: it could have been said to any speaker",
        "natural, if slightly formulaic",
        "a genuine exchange, as between two people",
    ),
)
_COLLOQUIALISM = RatingScale(
    "Colloquialism degree: is it everyday spoken language?",
    (
        "formal or academic written language throughout",
        "mostly formal",
        "a mix of everyday and formal language",
        "mostly everyday language",
        "relaxed everyday speech throughout",
    ),
)
_RELEVANCE = RatingScale(
    "Speech information relevance: does the reply respond to how it was said (the voice, the sounds or the "
    "environment described above), beyond the words?",
    # As in the paper, a reply that contradicts the cue scores higher than one that ignores it.
    (
        "nothing in it relates to how it was said",
        "contradicts how it was said",
        "largely overlooks it; any trace of it may be coincidence",
        "takes it into account, but as an aside rather than as part of the reply",
        "grounded in it: nobody would have replied this way without hearing how it was said",
    ),
    "If it was said without a particular cue, a reply that simply responds to the words scores 5, and one "
    "that claims to have heard a cue scores 2.",
)
_EMPATHY = RatingScale(
    "Rate the delivery alone: intensity, pitch, rhythm, pauses and tone of voice.",
    (
        "no expression at all: a flat or mechanical voice",
        "expressive, but mostly in the wrong way for this state",
        "in the right direction, but too weak",
        "suits the state, with a minor weakness in one respect",
        "intensity, pitch, rhythm and tone all suit the state, and the voice conveys care",
    ),
    "If the state is neutral, a natural, attentive voice suits it, and a strongly emotional one does not.",
)


def _rated(name: str, title: str, scale: RatingScale, place: int, *, shows_cue: bool = False) -> OutputSpec:
    """Return the output specification for a rating of the reply's text."""
    column = LeaderboardColumn(
        table=LeaderboardTable.RESPONSE_WORDS,
        title=name.upper(),
        place=place,
        picks_prompt=shows_cue,
        heat_map=shows_cue,
    )
    return _rating(name=name, title=title, columns=(column,), by_people=scale)


RUBRIC = JudgeSpec(
    name="rubric",
    version="5",
    title="ratings of the reply's text: context fit, naturalness, colloquialism, relevance to the vocal cue",
    kind=JudgeKind.LLM,
    implementation="live_eval.judges.rubric:Rubric",
    outputs=(
        _rated("c1", "C1 context fit", _CONTEXT_FIT, place=50),
        _rated("c2", "C2 response naturalness", _NATURALNESS, place=60),
        _rated("c3", "C3 colloquialism degree", _COLLOQUIALISM, place=70),
        replace(
            _rated("c4", "C4 speech information relevance", _RELEVANCE, 80, shows_cue=True),
            fits_cue_from=4.0,  # replies rated 4 or 5 reflect the cue, according to the anchors
        ),
    ),
    needs=frozenset({Need.REPLY_TEXT, Need.SCRIPT_TEXT, Need.CUE}),
    options=(_PROMPT,),
    packages=("openai",),
    key_variable="OPENAI_API_KEY",
    model=TEXT_MODEL,
    source=_ECHOMIND,
)

VES = _audio_model(
    name="ves",
    version="4",
    title="vocal empathy (VES): how well the reply's delivery responds to the speaker's state",
    kind=JudgeKind.LLM,
    implementation="live_eval.judges.ves:Ves",
    outputs=(
        _rating(
            name="",
            title="vocal empathy (VES)",
            by_people=_EMPATHY,
            columns=(
                LeaderboardColumn(
                    table=LeaderboardTable.RESPONSE_SOUND,
                    title="VES",
                    place=50,
                    picks_prompt=True,
                    heat_map=True,
                ),
            ),
        ),
    ),
    needs=frozenset({Need.REPLY_AUDIO, Need.CUE}),
    uses=frozenset({Need.SPEAKER_AUDIO}),
    options=(
        _PROMPT,
        OptionSpec(
            name="speaker_audio",
            help="whether the model hears the speaker too",
            default="no",
            choices=("no", "yes"),
            spares={"no": frozenset({Need.SPEAKER_AUDIO})},
        ),
    ),
    source=_ECHOMIND,
)

BENCHMARK_MODEL = JudgeSpec(
    name="benchmark_model",
    version="7",
    title="open answers to other benchmarks' items, rated by a language model",
    kind=JudgeKind.LLM,
    implementation="live_eval.judges.benchmark_model:BenchmarkModel",
    outputs=(
        _rating(name="rating", title="rating of an open answer", optional=True),
        OutputSpec(
            name="correct", title="agrees with the reference", unit="%", low=0.0, high=100.0, optional=True
        ),
        OutputSpec(name="met", title="criteria met", unit="%", low=0.0, high=100.0, optional=True),
        OutputSpec(name="passed", title="meets all criteria", unit="%", low=0.0, high=100.0, optional=True),
    ),
    needs=frozenset({Need.REPLY_TEXT, Need.SCRIPT_TEXT}),
    role=JudgeRole.BENCHMARK_MODEL,
    tasks=frozenset({Task.BENCHMARK}),
    packages=("openai",),
    key_variable="OPENAI_API_KEY",
    model=SMALL_TEXT_MODEL,
    source="Chen et al.: VoiceBench (arXiv 2410.17196)",
)

ARENA = _audio_model(
    name="arena",
    version="4",
    title="which of two spoken replies to the same case is better",
    kind=JudgeKind.PAIRWISE,
    implementation="live_eval.judges.arena:ArenaJudge",
    outputs=(OutputSpec(name="", title="preference", low=-1.0, high=1.0, higher_is_better=None),),
    needs=frozenset({Need.REPLY_AUDIO, Need.CUE}),
    default_place=10,
    uses=frozenset({Need.SCRIPT_TEXT, Need.REPLY_TEXT}),
    options=(_PROMPT,),
    source=_ECHOMIND,
)
