"""Data that passes through Ray can be read only by the two sides."""

from __future__ import annotations

import pickle

import pytest

from live_eval.cluster.sealing import KeyPair
from live_eval.errors import LiveEvalError
from live_eval.types import Secret


def test_only_the_two_sides_derive_the_same_seal() -> None:
    driver, worker, other = KeyPair(), KeyPair(), KeyPair()
    key = Secret("sk-canary-0123456789")
    sealed = driver.seal_with(worker.public).close({"key": key})
    assert worker.seal_with(driver.public).open(sealed) == {"key": key}
    assert key.reveal().encode() not in sealed
    assert key.reveal().encode() in pickle.dumps(key), "without a seal it is in the clear"
    with pytest.raises(LiveEvalError, match="not encrypted by the other side"):
        worker.seal_with(other.public).open(sealed)


def test_what_was_changed_on_the_way_is_refused() -> None:
    driver, worker = KeyPair(), KeyPair()
    sealed = bytearray(driver.seal_with(worker.public).close("an order"))
    sealed[-1] ^= 1
    with pytest.raises(LiveEvalError):
        worker.seal_with(driver.public).open(bytes(sealed))
