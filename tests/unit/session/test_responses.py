"""Responses during their arrival."""

from __future__ import annotations

import random

from live_eval.audio import Codec, CodecName
from live_eval.session.responses import OpenResponse
from live_eval.timing import play

MS = 1_000_000


def test_incremental_playout_ends_with_the_simulation_of_the_whole_response() -> None:
    pick = random.Random(24)
    for _ in range(100):
        response, at_ns = OpenResponse("r", 0), 0
        codec = Codec(CodecName.PCM16, pick.choice([16_000, 22_050, 24_000]))
        for _ in range(pick.randint(0, 20)):
            at_ns += pick.choice([0, 1, 20, 35, 100]) * MS
            samples = pick.choice([0, 1, 160, 480])
            response.hear(at_ns, bytes(2 * samples), codec, samples)
            if response.interrupted_ns is None and pick.random() < 0.1:
                response.interrupted_ns = at_ns + pick.randint(-100, 100) * MS
            playout = play(response.record())
            heard = playout.heard_samples
            assert response.heard_until_ns == (playout.heard_ns(heard - 1) if heard else None)
