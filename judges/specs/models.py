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
)

__all__ = ["ARENA", "AUDIO_MODEL", "RUBRIC", "TEXT_MODEL", "VES"]

TEXT_MODEL = "gpt-4o"
AUDIO_MODEL = "gemini-2.5-pro"
_GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"


_rating = partial(OutputSpec, unit="of 5", low=1.0, high=5.0)
_words = partial(LeaderboardColumn, table=LeaderboardTable.RESPONSE_WORDS)

_PROMPT = OptionSpec(name="prompt", help="a prompt file in the place of ours", is_file=True)
_ECHOMIND = "Zhou et al.: EchoMind (ICLR 2026)"

RUBRIC = JudgeSpec(
    name="rubric",
    version="1",
    title="how the reply's text fits: context, naturalness, colloquialism, the vocal cue",
    kind=JudgeKind.LLM,
    implementation="live_eval.judges.rubric:Rubric",
    outputs=(
        _rating(name="c1", title="C1 context fit", columns=(_words(title="C1", place=50),)),
        _rating(name="c2", title="C2 response naturalness", columns=(_words(title="C2", place=60),)),
        _rating(name="c3", title="C3 colloquialism degree", columns=(_words(title="C3", place=70),)),
        _rating(
            name="c4",
            title="C4 speech information relevance",
            columns=(_words(title="C4", place=80, picks_prompt=True, heat_map=True),),
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
    version="1",
    title="vocal empathy (VES): how the reply's delivery answers the speaker's state",
    kind=JudgeKind.LLM,
    implementation="live_eval.judges.ves:Ves",
    outputs=(
        _rating(
            name="",
            title="vocal empathy (VES)",
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
    version="1",
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
