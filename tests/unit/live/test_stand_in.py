"""Recordings in place of a person."""

import numpy as np
from numpy.typing import NDArray

from live_eval.live.stand_in import StandIn

MS = 1_000_000
BLOCK_NS = 10 * MS


def test_each_recording_waits_until_all_endpoints_listen() -> None:
    one, other = (np.full(480 * blocks - 7, value, np.int16) for blocks, value in ((30, 1), (20, 2)))
    stand_in = StandIn([one, other], 48_000)
    blocks: list[NDArray[np.int16]] = []
    quiet_from = {0: 50, 1: 400, 2: 800}  # in blocks, by the number of recordings so far
    began = 0
    while True:
        at = len(blocks)
        spoke = stand_in.speaks
        block = stand_in.block(at * BLOCK_NS, BLOCK_NS, quiet=at >= quiet_from[began])
        if block is None:
            break
        blocks.append(block)
        began += stand_in.speaks and not spoke
    said = np.concatenate(blocks)
    assert {len(block) for block in blocks} == {480}
    for value, begin, recording in ((1, 200, one), (2, 550, other)):
        assert np.flatnonzero(said == value).tolist() == list(
            range(480 * begin, 480 * begin + len(recording))
        )
    assert len(blocks) == 950
