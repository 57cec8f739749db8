"""What our judges say of themselves. Light: an implementation is loaded when it is used."""

from __future__ import annotations

from live_eval.judging import JudgeKind, JudgeSpec, Need, OutputSpec

__all__ = ["BLEU", "DNSMOS", "ROUGE_L", "WER_HEARD", "WER_SPOKEN"]


def _mos(name: str, title: str) -> OutputSpec:
    # The scale is 1 to 5. The networks are regressors that nothing clips, so a hostile recording can come
    # out a little below 1; their calibration polynomials keep them below 5.
    return OutputSpec(name=name, title=title, unit="MOS", low=0.0, high=5.0)


def _error_rates(what: str) -> tuple[OutputSpec, ...]:
    # No upper bound: insertions can be more than there are words.
    return tuple(
        OutputSpec(name=name, title=f"{what}, {how}", unit="%", low=0.0, higher_is_better=False)
        for name, how in (("normalized", "Whisper-normalised"), ("raw", "raw"))
    )


DNSMOS = JudgeSpec(
    name="dnsmos",
    version="1",
    title="DNSMOS: quality of the reply's sound, P.835 and P.808",
    kind=JudgeKind.LOCAL,
    implementation="judges.dnsmos:Dnsmos",
    outputs=(
        _mos("ovrl", "overall quality (P.835)"),
        _mos("sig", "quality of the speech (P.835)"),
        _mos("bak", "quality of the background (P.835)"),
        _mos("p808", "overall quality (P.808)"),
    ),
    needs=frozenset({Need.REPLY_AUDIO}),
    packages=("onnx", "onnxruntime", "speechmos"),
    licence="MIT",
    source="Reddy, Gopal, Cutler: DNSMOS (ICASSP 2021) and DNSMOS P.835 (ICASSP 2022)",
)

WER_HEARD = JudgeSpec(
    name="wer_heard",
    version="1",
    title="word errors of the vendor's transcript of the input (often not by the model that answers)",
    kind=JudgeKind.LOCAL,
    implementation="judges.word_error:WordErrorHeard",
    outputs=_error_rates("word error rate of what was heard"),
    needs=frozenset({Need.HEARD_TEXT, Need.SCRIPT_TEXT}),
    packages=("jiwer", "whisper_normalizer"),
    source="https://github.com/jitsi/jiwer; normaliser of Radford et al. (2022), appendix C",
)

WER_SPOKEN = JudgeSpec(
    name="wer_spoken",
    version="1",
    title="word errors of the reply's sound against its own transcript, as an offline recogniser hears it",
    kind=JudgeKind.LOCAL,
    implementation="judges.word_error:WordErrorSpoken",
    outputs=_error_rates("word error rate of what was said"),
    needs=frozenset({Need.REPLY_AUDIO, Need.REPLY_TEXT}),
    packages=("jiwer", "whisper_normalizer", "faster_whisper"),
    extra="local",
    licence="MIT",
    source="https://github.com/jitsi/jiwer; recogniser and normaliser of Radford et al. (2022)",
)

BLEU = JudgeSpec(
    name="bleu",
    version="1",
    title="BLEU-4 of the reply's text against the reference reply",
    kind=JudgeKind.LOCAL,
    implementation="judges.overlap:Bleu",
    outputs=(OutputSpec(name="", title="BLEU-4", low=0.0, high=100.0),),
    needs=frozenset({Need.REPLY_TEXT, Need.REFERENCE_TEXT}),
    packages=("nltk",),
    source="Papineni et al. (ACL 2002); smoothing 1 of Chen and Cherry (WMT 2014)",
)

ROUGE_L = JudgeSpec(
    name="rouge_l",
    version="1",
    title="ROUGE-L of the reply's text against the reference reply",
    kind=JudgeKind.LOCAL,
    implementation="judges.overlap:RougeL",
    outputs=(OutputSpec(name="", title="ROUGE-L F-measure", low=0.0, high=100.0),),
    needs=frozenset({Need.REPLY_TEXT, Need.REFERENCE_TEXT}),
    packages=("rouge_score",),
    source="Lin: ROUGE (ACL 2004); https://github.com/google-research/google-research/tree/master/rouge",
)
