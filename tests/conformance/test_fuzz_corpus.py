"""Run every input of the fuzzing corpus, including all inputs that once revealed a defect."""

from __future__ import annotations

import pytest

from tests.fuzz.dialect_target import converse, mutate_conversation
from tests.fuzz.seeds import CORPUS, corpus, seeds
from tests.fuzz.targets import TARGETS, messages_in
from tests.support.bundled import DIALECTS

_IN_PROCESS = [name for name in TARGETS if name != "studio"]
_MOST_BYTES = 1_000_000


@pytest.mark.parametrize("name", _IN_PROCESS)
def test_no_input_breaks_its_target(name: str) -> None:
    for path in corpus(name):
        TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", _IN_PROCESS)
def test_a_target_has_real_input(name: str) -> None:
    assert sum(messages_in(name, data) for data in seeds(name)) > 0


@pytest.mark.slow
def test_no_request_breaks_the_studio() -> None:
    for path in corpus("studio"):
        TARGETS["studio"](path.read_bytes())


def test_the_corpus_is_small_and_each_part_has_a_target() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < _MOST_BYTES
    assert {folder.name for folder in CORPUS.glob("*")} <= set(TARGETS)


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_damaged_conversations_still_parse(name: str) -> None:
    data = next(seeds(name))
    for seed in range(20):
        data = mutate_conversation(name, data, 16_384, seed)
        converse(name, data)
