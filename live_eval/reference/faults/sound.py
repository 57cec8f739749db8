"""The encoding of reply audio that a fault changes. Pure."""

from __future__ import annotations

from dataclasses import replace

from live_eval.audio import Codec, CodecName
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.script import FaultScript

__all__ = ["codec_sent"]


def codec_sent(agreed: Codec, faults: FaultScript) -> Codec:
    """Return how reply audio is encoded, which a fault may make another rate than was agreed."""
    fault = faults.get(FaultName.AUDIO_RATE)
    if fault is None or agreed.name is not CodecName.PCM16:
        return agreed
    return replace(agreed, rate_hz=fault.number)
