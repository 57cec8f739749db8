"""List the paper's published values: Zhou et al., "EchoMind" (ICLR 2026, arXiv 2510.22758)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["COLUMNS", "JUDGES", "PUBLISHED"]

COLUMNS = (
    *("WER", "SemSim", "understanding", "reasoning", "NISQA", "DNSMOS", "EmoAlign", "VES"),
    *("BLEU", "ROUGE-L", "METEOR", "BERTScore", "C1", "C2", "C3", "C4"),
)
"""The headings of the paper's columns, in the order of the values below."""

JUDGES: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(("C1", "C2", "C3", "C4"), "GPT-4o"), "VES": "Gemini 2.5 Pro"}
)
"""The judge model of each column; columns without one are computed."""

_ROWS = """
GPT-4o-Audio          10.74 98.47 66.25 68.04 4.91 4.23 51.31 3.34 2.54 19.91 18.37 82.70 4.37 4.67 4.21 3.42
Step-Audio                – 96.73 40.74 45.90 4.86 4.30 40.58 3.20 1.92 17.93 11.59 78.77 4.12 4.59 4.43 3.09
Kimi-Audio             5.54 99.06 49.27 55.93 4.17 2.88 23.60 3.29 0.66  7.82  4.94 54.26 3.41 3.80 3.54 2.58
Qwen2.5-Omni-7B        3.97 99.27 60.87 57.70 4.49 4.12 39.22 3.24 1.41 15.87 12.15 77.59 3.86 4.21 4.31 2.92
OpenS2S                   –     – 31.18 50.37 4.68 3.93 35.21 2.98 1.34 16.02  8.78 74.44 4.02 4.31 4.15 3.31
GLM-4-voice               –     – 25.54 22.28 4.82 4.23 42.22 2.95 1.70 15.92 12.33 75.70 3.83 4.34 4.17 2.93
Baichuan-Omni-1.5      8.86 97.33 43.58 55.50 3.94 4.37 39.09 2.40 1.92 17.58 12.99 79.17 4.05 4.47 4.02 2.81
LLaMA-Omni2            8.88 97.78 36.24 50.58 4.84 4.46 43.17 2.06 1.67 17.67  9.94 75.89 3.99 4.29 3.92 2.92
VITA-Audio             4.91 98.74 25.24 27.69 4.99 4.30 38.52 2.13 1.45 16.55 11.76 77.49 4.00 4.44 4.34 3.03
EchoX                 10.92 98.03 35.90 47.12 4.37 3.90 39.67 1.40 1.07 14.14 13.14 76.85 3.05 3.32 2.92 2.19
DeSTA2.5-Audio         5.39 98.64 56.68 63.04    –    –     –    – 2.06 19.30 12.69 77.60 4.13 4.43 4.06 3.36
Audio-Flamingo3        2.93 99.18 64.29 58.80    –    –     –    – 0.60  8.05  5.58 59.31 1.54 1.39 1.22 1.97
Audio-Flamingo3-chat      –     – 41.20 51.59    –    –     –    – 1.53 16.37 15.52 79.10 3.34 3.80 3.27 2.54
"""


def _rows() -> dict[str, Mapping[str, float]]:
    rows: dict[str, Mapping[str, float]] = {}
    for line in _ROWS.strip().splitlines():
        name, *figures = line.split()
        given = zip(COLUMNS, figures, strict=True)
        rows[name] = MappingProxyType({column: float(figure) for column, figure in given if figure != "–"})
    return rows


PUBLISHED: Mapping[str, Mapping[str, float]] = MappingProxyType(_rows())
"""The published values by model and column."""
