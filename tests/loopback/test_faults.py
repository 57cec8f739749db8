"""One fault of each layer, with real clients in runs of one turn; tests/e2e/test_faults.py has all."""

from pathlib import Path

import pytest

from live_eval.errors import FailureKind
from live_eval.reference.faults.catalogue import FAULTS
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.run.retries import Retry, retry_of
from tests.support.fault_matrix import cells, documented, measured

pytestmark = pytest.mark.usefixtures("own_cache")

EXPECTED = {
    ("reset:accept", "moshi"): (FailureKind.CONNECT_FAILED, True, True),
    ("tls:untrusted", "openai-webrtc"): (FailureKind.TLS, False, False),
    ("unavailable:1s", "openai-beta"): (FailureKind.UNAVAILABLE, True, True),
    ("bad_fingerprint", "pipecat-webrtc"): (FailureKind.DTLS_FAILED, True, True),
    ("close@speech", "gemini-live"): (FailureKind.ENDPOINT_ERROR, True, True),
    ("bad_frame", "openai"): (FailureKind.MALFORMED_MESSAGE, True, True),
    ("missing", "moshi"): (FailureKind.MALFORMED_AUDIO, True, True),
    ("skew", "openai-live"): (None, False, True),
}


def test_the_faults_are_among_those_that_apply() -> None:
    assert EXPECTED.keys() <= set(cells())


def test_the_outcome_of_every_fault_with_every_dialect_is_documented() -> None:
    assert documented("faults.md").keys() == set(cells())


def test_the_catalogue_and_the_table_of_retries_match_the_documentation() -> None:
    for (injected, dialect), outcome in documented("faults.md").items():
        (fault,) = parse_faults(injected)
        kind = None if outcome.startswith("captured") else FailureKind(outcome.partition(",")[0])
        if str(fault) == str(parse_faults(fault.name.value)):
            assert kind is FAULTS[fault.name].expected(dialect), (injected, dialect)
        if kind is not None:
            assert ("not retried" in outcome) == (retry_of(kind) is Retry.NEVER), (injected, dialect)


async def test_a_fault_of_each_layer_has_its_kind_is_retried_or_not_and_passes(tmp_path: Path) -> None:
    found = await measured(list(EXPECTED), tmp_path, at_a_time=len(EXPECTED))
    results = {(cell.fault, cell.dialect): (cell.kind, cell.attempts > 1, cell.captured) for cell in found}
    assert results == EXPECTED, [cell.message for cell in found]
