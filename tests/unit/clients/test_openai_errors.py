"""Errors and closes of OpenAI-like endpoints, as failures."""

from __future__ import annotations

import pytest

from live_eval.dialect import (
    ResponseDone,
)
from live_eval.errors import FailureKind
from live_eval.types import TurnMode
from tests.support.dialects import sent
from tests.unit.clients.dialects.openai_endpoint import Endpoint, problem

BASE = "wss://api.openai.com/v1"


KEY = "sk-proj-1a2b3c"


MS = 1_000_000


def test_a_close_states_when_to_retry() -> None:
    reason = "tokens.rate_limit_exceeded: Please try again in 20s."
    told = problem(list(Endpoint().dialect.closed(4000, reason, 0)))
    assert (told.kind, told.retry_after_s) == (FailureKind.RATE_LIMITED, 20)


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, FailureKind.AUTHENTICATION),
        ({"type": "authentication_error"}, FailureKind.AUTHENTICATION),
        ({"type": "tokens", "code": "rate_limit_exceeded"}, FailureKind.RATE_LIMITED),
        ({"type": "insufficient_quota", "code": "insufficient_quota"}, FailureKind.RATE_LIMITED),
        ({"type": "invalid_request_error", "code": "session_expired"}, FailureKind.SESSION_EXPIRED),
        ({"type": "invalid_request_error", "code": "beta_api_shape_disabled"}, FailureKind.SESSION_REFUSED),
    ],
)
def test_errors_that_end_any_session(error: dict[str, str], kind: FailureKind, ready: bool) -> None:
    endpoint = Endpoint(ready=ready)
    told = problem(endpoint.error(message="no", **error))
    assert (told.kind, told.fatal, told.code) == (kind, True, error.get("code"))
    assert not endpoint.dialect.closed(1000, "", 0)  # already reported


@pytest.mark.parametrize("error", [{"type": "server_error"}, {"code": "unknown_parameter", "param": "x"}, {}])
def test_other_errors_end_a_session_only_before_it_is_ready(error: dict[str, str]) -> None:
    early = problem(Endpoint(ready=False).error(**error))
    assert (early.kind, early.fatal) == (FailureKind.NO_SESSION, True)
    late = problem(Endpoint().error(**error))
    assert (late.kind, late.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert late.message


@pytest.mark.parametrize("index", [0, 1])
def test_a_refused_commit_or_create_is_fatal(index: int) -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    request = sent(endpoint.dialect.end_turn(0))[index]
    told = problem(endpoint.error(code="nope", message="no", event_id=request["event_id"]))
    assert (told.kind, told.fatal) == (FailureKind.ENDPOINT_ERROR, True)
    assert told.message == f"the endpoint refused {request['type']}: nope: no"


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 20s.", 20),
        ("Please try again in 1.95s. Visit", 1.95),
        ("Please try again in 180ms.", 0.18),
        ("Please try again in 6m0s.", 360),
        ("please try again in 1h2m3.5s", 3_723.5),
        ("Please try again in 1d.", 86_400),
        ("Please try again in a while.", None),
        ("Please try again in 7 days", None),
    ],
)
def test_when_to_retry(message: str, seconds: float | None) -> None:
    error = {"type": "tokens", "code": "rate_limit_exceeded", "message": f"Limit reached. {message}"}
    assert problem(Endpoint().error(**error)).retry_after_s == pytest.approx(seconds)
    outputs = Endpoint().done("failed", status_details={"type": "failed", "error": error})
    told = problem(outputs)
    assert (told.kind, told.fatal) == (FailureKind.RATE_LIMITED, True)
    assert told.retry_after_s == pytest.approx(seconds)
    assert isinstance(outputs[-1], ResponseDone)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("invalid_request_error.invalid_api_key", FailureKind.AUTHENTICATION),
        ("invalid_request_error.beta_api_shape_disabled", FailureKind.SESSION_REFUSED),
        ("session_expired", FailureKind.SESSION_EXPIRED),
        ("insufficient_quota.insufficient_quota", FailureKind.RATE_LIMITED),
        ("bye", FailureKind.CLOSED),
    ],
)
def test_what_a_close_means(reason: str, kind: FailureKind) -> None:
    told = problem(list(Endpoint().dialect.closed(4000, reason, 0)))
    assert (told.kind, told.fatal) == (kind, True)
    assert "code 4000" in told.message
    assert reason in told.message
