"""Compare runs in pairs: a judge, or people, decide which of two replies to the same case is better."""

from live_eval.analysis.arena.outcome import ArenaResult, play_arena, verdict_lines, write_verdicts
from live_eval.analysis.arena.verdicts import ArenaPlan, judge_pairs
from live_eval.analysis.arena.vote_file import read_votes

__all__ = [
    "ArenaPlan",
    "ArenaResult",
    "judge_pairs",
    "play_arena",
    "read_votes",
    "verdict_lines",
    "write_verdicts",
]
