"""Judges that ask a model."""

from __future__ import annotations

from functools import partial

from live_eval.judging import (
    JudgeKind,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    Need,
    OptionSpec,
    OutputSpec,
    RatingScale,
)

__all__ = ["ARENA", "AUDIO_MODEL", "RUBRIC", "TEXT_MODEL", "VES"]

TEXT_MODEL = "gpt-4o"
AUDIO_MODEL = "gemini-2.5-pro"
_GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"


_rating = partial(OutputSpec, unit="of 5", low=1.0, high=5.0)
_words = partial(LeaderboardColumn, table=LeaderboardTable.RESPONSE_WORDS)

_PROMPT = OptionSpec(name="prompt", help="a prompt file in the place of ours", is_file=True)
_ECHOMIND = "Zhou et al.: EchoMind (ICLR 2026)"

# The questions, anchors and notes of prompts/rubric.md and prompts/ves.md; a test compares them.
_CONTEXT_FIT = RatingScale(
    "Context fit: does the reply answer to the topic and to what was said?",
    (
        "it has nothing to do with either",
        "it touches the topic but passes by what was said",
        "it is on the topic, but parts of it are off, missing or wrong for what was said",
        "it fits, with one small thing off",
        "all of it fits what was said and moves the talk on",
    ),
)
_NATURALNESS = RatingScale(
    "Response naturalness: would a person say this in a conversation?",
    (
        "stiff and mechanical, like a notice that is read out",
        "mostly mechanical, with turns of phrase nobody uses in talk",
        "it flows, but follows a formula that would serve for any speaker",
        "natural, with a trace of formula",
        "a real exchange, as between two people",
    ),
)
_COLLOQUIALISM = RatingScale(
    "Colloquialism degree: is it everyday spoken language?",
    (
        "formal or academic, written language throughout",
        "mostly formal",
        "everyday and formal language mixed",
        "mostly everyday language",
        "relaxed everyday speech throughout",
    ),
)
_RELEVANCE = RatingScale(
    "Speech information relevance: does the reply take up how it was said, that is the voice, the sounds or "
    "the surroundings told above, beyond the words?",
    (
        "nothing in it has to do with how it was said",
        "it goes against how it was said",
        "it largely passes over it; a trace may be there by chance",
        "it takes it into account, but beside the point of the reply rather than as part of it",
        "it is grounded in it: without having heard how it was said, nobody would have replied so",
    ),
    "Where it was said without a particular cue, a reply that simply answers the words earns a 5, and one "
    "that claims to have heard a cue a 2.",
)
_EMPATHY = RatingScale(
    "Rate the delivery alone: intensity, pitch, rhythm, pauses and tone of the voice.",
    (
        "no expression at all: a flat or mechanical voice",
        "there is expression, but mostly of the wrong kind for this state",
        "the right direction, but too little of it",
        "it suits the state, with small lacks in one respect",
        "intensity, pitch, rhythm and tone all suit the state, and care can be heard",
    ),
    "Where the state is neutral, a natural, attentive voice suits it, and a strongly emotional one does not.",
)

RUBRIC = JudgeSpec(
    name="rubric",
    version="2",
    title="how the reply's text fits: context, naturalness, colloquialism, the vocal cue",
    kind=JudgeKind.LLM,
    implementation="live_eval.judges.rubric:Rubric",
    outputs=(
        _rating(
            name="c1",
            title="C1 context fit",
            columns=(_words(title="C1", place=50),),
            by_people=_CONTEXT_FIT,
        ),
        _rating(
            name="c2",
            title="C2 response naturalness",
            columns=(_words(title="C2", place=60),),
            by_people=_NATURALNESS,
        ),
        _rating(
            name="c3",
            title="C3 colloquialism degree",
            columns=(_words(title="C3", place=70),),
            by_people=_COLLOQUIALISM,
        ),
        _rating(
            name="c4",
            title="C4 speech information relevance",
            columns=(_words(title="C4", place=80, picks_prompt=True, heat_map=True),),
            by_people=_RELEVANCE,
            fits_cue_from=4.0,  # By the anchors of the scale, the reply considers the cue from 4 on.
        ),
    ),
    needs=frozenset({Need.REPLY_TEXT, Need.SCRIPT_TEXT, Need.CUE}),
    options=(_PROMPT,),
    packages=("openai",),
    key_variable="OPENAI_API_KEY",
    model=TEXT_MODEL,
    source=_ECHOMIND,
)

VES = JudgeSpec(
    name="ves",
    version="2",
    title="vocal empathy (VES): how the reply's delivery answers the speaker's state",
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
    packages=("openai",),
    key_variable="GEMINI_API_KEY",
    base_url=_GEMINI,
    model=AUDIO_MODEL,
    source=_ECHOMIND,
)

ARENA = JudgeSpec(
    name="arena",
    version="2",
    title="which of two spoken replies to the same case is better",
    kind=JudgeKind.PAIRWISE,
    implementation="live_eval.judges.arena:ArenaJudge",
    outputs=(OutputSpec(name="", title="preference", low=-1.0, high=1.0, higher_is_better=None),),
    needs=frozenset({Need.REPLY_AUDIO, Need.CUE}),
    default_place=10,
    uses=frozenset({Need.SCRIPT_TEXT, Need.REPLY_TEXT}),
    options=(_PROMPT,),
    packages=("openai",),
    key_variable="GEMINI_API_KEY",
    base_url=_GEMINI,
    model=AUDIO_MODEL,
    source=_ECHOMIND,
)
