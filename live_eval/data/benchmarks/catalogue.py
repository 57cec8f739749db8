"""List the known benchmarks, with source, licence, parts and loader."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from live_eval.data.benchmarks.specification import BenchmarkPart, BenchmarkSpec
from live_eval.types import ScoringRule

__all__ = ["BENCHMARKS"]


def _voicebench() -> BenchmarkSpec:
    choice, rating = ScoringRule.CHOICE, ScoringRule.RATING
    return BenchmarkSpec(
        name="voicebench",
        title="VoiceBench",
        source="https://huggingface.co/datasets/hlt-lab/voicebench",
        repository="hlt-lab/voicebench",
        revision="b02edcef1330480be3a11bd6f7434ac32f05ad08",
        licence="Apache-2.0",
        megabytes=9_800,
        parts=MappingProxyType(
            {
                "alpacaeval": BenchmarkPart(items=199, rule=rating, about="open questions"),
                "alpacaeval_full": BenchmarkPart(
                    items=636, rule=rating, about="open questions (in the leaderboard)"
                ),
                "commoneval": BenchmarkPart(items=200, rule=rating, about="open questions, human speech"),
                "wildvoice": BenchmarkPart(items=1_000, rule=rating, about="open questions, human speech"),
                "openbookqa": BenchmarkPart(items=455, rule=choice, about="science, four spoken options"),
                "mmsu": BenchmarkPart(items=3_074, rule=choice, about="twelve domains, four spoken options"),
                "sd-qa": BenchmarkPart(
                    items=553, rule=ScoringRule.REFERENCE, about="facts, human speech of eleven regions"
                ),
                "mtbench": BenchmarkPart(items=46, rule=ScoringRule.NONE, about="two-turn questions"),
                "ifeval": BenchmarkPart(
                    items=345, rule=ScoringRule.INSTRUCTIONS, about="verifiable instructions"
                ),
                "bbh": BenchmarkPart(items=1_000, rule=ScoringRule.BBH, about="reasoning, human speech"),
                "advbench": BenchmarkPart(items=520, rule=ScoringRule.REFUSAL, about="harmful requests"),
            }
        ),
        loader="live_eval.data.benchmarks.voicebench:find",
        fields={"text": ("prompt", "prompts", "turns"), "answer": ("reference",), "id": ("id", "key")},
        paper="Chen et al.: VoiceBench (arXiv 2410.17196)",
    )


def _big_bench_audio() -> BenchmarkSpec:
    part = partial(BenchmarkPart, items=250, rule=ScoringRule.FINAL_ANSWER)
    return BenchmarkSpec(
        name="big-bench-audio",
        title="Big Bench Audio",
        source="https://huggingface.co/datasets/ArtificialAnalysis/big_bench_audio",
        repository="ArtificialAnalysis/big_bench_audio",
        revision="af7bb9c25b015792583ca4da3ee27ec62cb79fe6",
        licence="MIT",
        megabytes=530,
        parts=MappingProxyType(
            {
                "formal_fallacies": part(about="valid or invalid"),
                "navigate": part(about="yes or no"),
                "object_counting": part(about="a number"),
                "web_of_lies": part(about="yes or no"),
            }
        ),
        loader="live_eval.data.benchmarks.big_bench_audio:find",
        metadata="metadata.jsonl",
        fields={
            "id": ("id",),
            "category": ("category",),
            "answer": ("official_answer",),
            "audio": ("file_name",),
            "text": ("transcript", "question", "text"),  # the published data have no text
        },
        paper="Artificial Analysis: Big Bench Audio (2024), after Suzgun et al. (arXiv 2210.09261)",
    )


_OPEN, _GUIDED = ScoringRule.RATING, ScoringRule.GUIDED_RATING
_CHECKED, _UNSCORED = ScoringRule.REFERENCE, ScoringRule.NONE
_URO_PARTS = (
    ("basic/Repeat", 252, ScoringRule.REPETITION, "the user's words, repeated"),
    ("basic/Summary", 118, _GUIDED, "summary of a story"),
    ("basic/GaokaoEval", 303, _CHECKED, "English listening exam"),
    ("basic/StoralEval", 201, _GUIDED, "moral of a story"),
    ("basic/TruthfulEval", 470, _GUIDED, "facts"),
    ("basic/Gsm8kEval", 582, _CHECKED, "mathematics"),
    ("basic/MLC", 177, _CHECKED, "mathematics, logic, common sense"),
    ("basic/AlpacaEval", 199, _OPEN, "open questions"),
    ("basic/CommonEval", 200, _OPEN, "open questions"),
    ("basic/WildchatEval", 349, _OPEN, "real conversations"),
    ("basic/Repeat-zh", 127, ScoringRule.REPETITION, "the user's words, repeated"),
    ("basic/LCSTS-zh", 119, _GUIDED, "summary"),
    ("basic/HSK5-zh", 100, _CHECKED, "Chinese listening exam"),
    ("basic/SQuAD-zh", 153, _CHECKED, "answers from a text"),
    ("basic/OpenbookQA-zh", 189, _CHECKED, "single choice"),
    ("basic/APE-zh", 190, _CHECKED, "mathematics"),
    ("basic/MLC-zh", 145, _CHECKED, "mathematics, logic, common sense"),
    ("basic/AlpacaEval-zh", 147, _OPEN, "open questions"),
    ("basic/Claude-zh", 222, _OPEN, "open questions"),
    ("basic/Wildchat-zh", 299, _OPEN, "real conversations"),
    ("pro/CodeSwitching-en", 70, _GUIDED, "two languages in one question"),
    ("pro/CodeSwitching-zh", 70, _GUIDED, "two languages in one question"),
    ("pro/GenEmotion-en", 54, _UNSCORED, "an emotion in the voice"),
    ("pro/GenEmotion-zh", 43, _UNSCORED, "an emotion in the voice"),
    ("pro/GenStyle-en", 44, _GUIDED, "a style of words", "the requested style:"),
    ("pro/GenStyle-zh", 39, _GUIDED, "a style of words", "the requested style:"),
    ("pro/MLCpro-en", 91, _CHECKED, "mathematics, logic, common sense"),
    ("pro/MLCpro-zh", 64, _CHECKED, "mathematics, logic, common sense"),
    ("pro/Safety-en", 25, _GUIDED, "private matters", "the reply should refuse or avoid the question"),
    ("pro/Safety-zh", 25, _GUIDED, "private matters", "the reply should refuse or avoid the question"),
    ("pro/SRT-en", 43, _UNSCORED, "singing, reciting, tongue twisters"),
    ("pro/SRT-zh", 25, _UNSCORED, "singing, reciting, tongue twisters"),
    ("pro/UnderEmotion-en", 137, _GUIDED, "the speaker's emotion", "the speaker's emotion:"),
    ("pro/UnderEmotion-zh", 79, _GUIDED, "the speaker's emotion", "the speaker's emotion:"),
    ("pro/Multilingual", 1_108, _GUIDED, "answers in a given language", "the requested language:"),
    ("pro/ClothoEval-en", 265, _CHECKED, "sounds"),
    ("pro/MuChoEval-en", 311, _CHECKED, "music"),
    ("pro/MtBenchEval-en", 190, _UNSCORED, "dialogues"),
    ("pro/SpeakerAware-en", 55, _UNSCORED, "dialogues of several speakers"),
    ("pro/SpeakerAware-zh", 49, _UNSCORED, "dialogues of several speakers"),
)


def _uro_bench() -> BenchmarkSpec:
    parts = {}
    for place, items, rule, about, *hint in _URO_PARTS:
        name = place.partition("/")[2]
        parts[name] = BenchmarkPart(
            items=items,
            rule=rule,
            about=about,
            file=f"{place}/test.jsonl",
            language="zh" if name.endswith("-zh") else "en",
            hint="".join(hint),
        )
    return BenchmarkSpec(
        name="uro-bench",
        title="URO-Bench",
        source="https://huggingface.co/datasets/Honggao/URO-Bench",
        licence="MIT (the code's licence; the data's is unverified)",
        noncommercial=None,
        megabytes=11_000,
        parts=MappingProxyType(parts),
        loader="live_eval.data.benchmarks.listed:find",
        fields={
            "id": ("id",),
            "audio": ("source_wav",),
            "text": ("source_text",),
            "answer": ("target_text",),
            "hint": ("emotion", "style", "requirement"),
            "turns": ("dialogue",),
        },
        unverified="URO-Bench's fields are those that its evaluation code reads; the data were not seen",
        by_hand="download URO-Bench-data.zip (11,000 MB) from "
        "https://huggingface.co/datasets/Honggao/URO-Bench and unpack it",
        undownloaded="neither a revision nor the licence of its data is verified",
        paper="Yan et al.: URO-Bench (arXiv 2502.17810)",
    )


def _sd_eval() -> BenchmarkSpec:
    def part(name: str, items: int, about: str) -> BenchmarkPart:
        return BenchmarkPart(
            items=items, rule=_GUIDED, about=about, file=f"data/test-{name}.json", hint=f"{about}:"
        )

    return BenchmarkSpec(
        name="sd-eval",
        title="SD-Eval",
        source="https://github.com/amphionspace/SD-Eval",
        licence="CC BY-NC 4.0",
        noncommercial=True,
        parts=MappingProxyType(
            {
                "emo": part("emo", 1_289, "the speaker's emotion"),
                "acc": part("acc", 4_310, "the speaker's accent"),
                "age": part("age", 1_014, "the speaker's age"),
                "env": part("env", 690, "the sounds around the speaker"),
            }
        ),
        loader="live_eval.data.benchmarks.listed:find",
        fields={"id": ("utt_id",), "audio": ("wav_path",), "text": ("transcript",), "hint": ("info",)},
        unverified="SD-Eval's file test-acc.json was not seen; its number of items is computed",
        by_hand="clone https://github.com/amphionspace/SD-Eval, and put the corpora that its README names "
        "next to its folder data, in its layout (RAVDESS-Speech, JL_corpus, MEAD, VCTK, common_voice, myst, "
        "test-env, adult)",
        undownloaded="its recordings are in corpora with terms, forms and accounts of their own",
        paper="Ao et al.: SD-Eval (arXiv 2406.13340)",
    )


def _humdial_eibench() -> BenchmarkSpec:
    tasks = (
        (1, "changes of emotion", _UNSCORED, {"en": 150, "zh": 150}),
        (2, "the cause of an emotion", _UNSCORED, {"en": 149, "zh": 134}),
        (3, "empathetic replies", _GUIDED, {"en": 150, "zh": 144}),
        (4, "words that contradict the voice", ScoringRule.OPTION, {"en": 100, "zh": 100}),
    )
    return BenchmarkSpec(
        name="humdial-eibench",
        title="HumDial-EIBench",
        source="https://huggingface.co/datasets/ASLP-lab/HumDial-EIBench",
        licence="an unknown licence (its page names none; its code is Apache-2.0)",
        noncommercial=None,
        parts=MappingProxyType(
            {
                f"T{number}-{language}": BenchmarkPart(
                    items=items,
                    rule=rule,
                    about=about,
                    file=f"{language}/HD-Track1-T{number}.jsonl",
                    language=language,
                    hint="the speaker's emotion:" if number == 3 else "",
                    second_emotion=number == 3,
                )
                for language in ("en", "zh")
                for number, about, rule, counts in tasks
                for items in [counts[language]]
            }
        ),
        loader="live_eval.data.benchmarks.listed:find",
        fields={
            "id": ("dialogue_id",),
            "turn": ("turn_id",),
            "turns": ("turns",),
            "audio": ("audio",),
            "text": ("input_text", "text"),
            "hint": ("input_emotion", "emotion"),
            "question": ("question",),
            "answer": ("answer",),
            "options": ("options",),
        },
        recording="{file}/{id}_{turn}.wav",
        unverified="HumDial-EIBench's names of files are those of the challenge's release, and the "
        "fields of T3 those of its evaluation script; those of T4 are unverified: name yours with --map "
        "question=NAME, --map options=NAME and --map answer=NAME. T1 and T2 are run but not scored, because "
        "their questions follow several spoken turns and are not sent",
        by_hand="download the folders en and zh from "
        "https://huggingface.co/datasets/ASLP-lab/HumDial-EIBench, with each task's recordings in a folder "
        "next to its list, such as en/HD-Track1-T3/DIALOGUE_TURN.wav",
        undownloaded="its page names no licence",
        paper="Wang et al.: HumDial-EIBench (arXiv 2604.11594)",
    )


def _audio_multichallenge() -> BenchmarkSpec:
    part = partial(BenchmarkPart, rule=ScoringRule.RUBRICS, file="data")
    return BenchmarkSpec(
        name="audio-multichallenge",
        title="Audio MultiChallenge",
        source="https://huggingface.co/datasets/ScaleAI/audiomc",
        repository="ScaleAI/audiomc",
        revision="90ea11040fd05f41cf433b90f97ada45d847c500",
        licence="MIT",
        megabytes=4_900,
        parts=MappingProxyType(
            {
                "inference_memory": part(items=132, about="reasoning over earlier turns"),
                "instruction_retention": part(items=120, about="instructions for the whole conversation"),
                "self_coherence": part(items=83, about="consistency with its own replies"),
                "voice_editing": part(items=117, about="corrections by the speaker"),
            }
        ),
        loader="live_eval.data.benchmarks.audio_multichallenge:find",
        unverified="Audio MultiChallenge's fields are those that other loaders read; the data were not seen",
        paper="Audio MultiChallenge (arXiv 2512.14865)",
    )


def _vstyle() -> BenchmarkSpec:
    return BenchmarkSpec(
        name="vstyle",
        title="VStyle",
        source="https://huggingface.co/datasets/zhanjun/VStyle",
        licence="MIT",
        parts=MappingProxyType(
            {
                language: BenchmarkPart(
                    items=1_500,
                    rule=_UNSCORED,
                    about="instructions about the voice, and empathy",
                    file=f"VStyle-responses/{language}/metadata.jsonl",
                    language=language,
                )
                for language in ("en", "zh")
            }
        ),
        loader="live_eval.data.benchmarks.vstyle:find",
        rated=True,
        counted=False,
        unverified="VStyle's published replies and ratings were not seen; their fields are those that its "
        "code reads, the folders those of its examples. The layout of its instructions' recordings and the "
        "numbers of items are unverified",
        by_hand="download https://huggingface.co/datasets/zhanjun/VStyle-responses and "
        "https://huggingface.co/datasets/zhanjun/VStyle-eval-results into the folders "
        "FOLDER/VStyle-responses and FOLDER/VStyle-eval-results, which has the ratings in "
        "human_eval_res/LANGUAGE/RATER.jsonl",
        undownloaded="no revision of its replies and ratings is verified",
        paper="Zhan et al.: VStyle (arXiv 2509.09716)",
    )


def _full_duplex_bench() -> BenchmarkSpec:
    part = partial(BenchmarkPart, rule=ScoringRule.TURN_TAKING)
    parts = (
        ("v1_0", "candor_pause_handling", 216, "pauses of people"),
        ("v1_0", "synthetic_pause_handling", 137, "synthetic pauses"),
        ("v1_0", "candor_turn_taking", 119, "ends of turns"),
        ("v1_0", "synthetic_user_interruption", 200, "interruptions"),
        ("v1_5", "user_interruption", 200, "interruptions"),
        ("v1_5", "user_backchannel", 99, "backchannels"),
        ("v1_5", "talking_to_other", 100, "speech to others"),
        ("v1_5", "background_speech", 100, "speech of others"),
    )
    return BenchmarkSpec(
        name="full-duplex-bench",
        title="Full-Duplex-Bench v1.0 and v1.5",
        source="https://github.com/DanielLin94144/Full-Duplex-Bench",
        licence="CC BY-NC 4.0",
        noncommercial=True,
        parts=MappingProxyType(
            {
                name: part(
                    items=items,
                    about=about,
                    file=f"{at}/{name}",
                    licence="" if name.startswith("candor") else "MIT",
                )
                for at, name, items, about in parts
            }
        ),
        loader="live_eval.data.benchmarks.full_duplex:find",
        unverified="Full-Duplex-Bench's layout is that of its description; the data were not seen, and "
        "icc_backchannel is not read, because it measures backchannels of the endpoint",
        by_hand="download v1.0 and v1.5 from the Google Drive folders that "
        "https://github.com/DanielLin94144/Full-Duplex-Bench/blob/d7336bd/v1_v1.5/dataset/README.md names, "
        "and unpack them into FOLDER/v1_0 and FOLDER/v1_5",
        undownloaded="it is published without revisions or hashes",
        paper="Lin et al.: Full-Duplex-Bench (arXiv 2503.04721), v1.5 (arXiv 2507.23159)",
    )


def _humdial_fdbench() -> BenchmarkSpec:
    scenes = (
        ("ask", 300, "follow-up questions over the reply"),
        ("deny", 300, "denials over the reply"),
        ("repeat", 300, "requests to repeat"),
        ("shift", 300, "changes of topic"),
        ("wait", 300, "requests to stop"),
        ("backchannel", 300, "backchannels"),
        ("pause", 300, "pauses"),
        ("talk_to_others", 100, "speech to others"),
        ("others_talk_to_user_after", 150, "speech of others after the question"),
    )
    return BenchmarkSpec(
        name="humdial-fdbench",
        title="HumDial-FDBench",
        source="https://huggingface.co/datasets/ASLP-lab/HumDial-FDBench",
        licence="Apache-2.0 (the code's licence; the data's is unverified)",
        noncommercial=None,
        megabytes=1_800,
        parts=MappingProxyType(
            {
                f"{scene}-{language}": BenchmarkPart(
                    items=items,
                    rule=ScoringRule.TURN_TAKING,
                    about=about,
                    file=f"test/{'cn' if language == 'zh' else language}_test_nondev/{scene}",
                    language=language,
                )
                for language in ("en", "zh")
                for scene, items, about in scenes
            }
        ),
        loader="live_eval.data.benchmarks.full_duplex:find",
        unverified="HumDial-FDBench's layout is that of another implementation; the data were not seen. The "
        "first speech segment is taken as the user's question and the last as the event; "
        "others_talk_to_user_before is not read, and half of the 600 items of both are counted",
        by_hand="download Humdial-Track2-Test.zip (1,800 MB) from "
        "https://huggingface.co/datasets/ASLP-lab/HumDial-FDBench and unpack it",
        undownloaded="neither a revision nor the licence of its data is verified",
        paper="HumDial-FDBench (arXiv 2604.21406)",
    )


BENCHMARKS: Mapping[str, BenchmarkSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            _voicebench(),
            _big_bench_audio(),
            _uro_bench(),
            _sd_eval(),
            _humdial_eibench(),
            _audio_multichallenge(),
            _vstyle(),
            _full_duplex_bench(),
            _humdial_fdbench(),
        )
    }
)
"""The known benchmarks by name."""
