"""Failures of HTTP requests by status and body."""

import errno
from email.utils import formatdate

import pytest

from live_eval.clients.transports._http_errors import Address, retry_after_s
from live_eval.dialect import Dial
from live_eval.errors import ConnectError, FailureKind
from live_eval.run.retries import Retry, retry_of

WHERE = "wss://127.0.0.1:9/v1/realtime"


def refused(
    status: int, body: str, where: str = WHERE, otherwise: FailureKind = FailureKind.HANDSHAKE
) -> ConnectError:
    return Address(Dial(where), ("wss",)).refused(
        status,
        "",
        {},
        body.encode(),
        expected="HTTP status 101 (a WebSocket)",
        otherwise=otherwise,
        wall_ns=0,
    )


def kind_of(status: int, body: str) -> FailureKind:
    error = refused(status, body)
    assert error.message.startswith(f"{WHERE}: expected HTTP status 101 (a WebSocket), got {status}")
    return error.kind


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, '{"error":{"message":"x","code":"model_not_found"}}'),
        (403, '{"error":{"message":"x","code":"model_not_found"}}'),
        (404, '{"error":{"message":"x","code":"DeploymentNotFound"}}'),
        (
            404,
            '{"error":{"message":"The model `org/m-1.5` does not exist.","type":"NotFoundError","code":404}}',
        ),
        (404, '{"object":"error","message":"The model `m` does not exist.","code":404}'),
        (404, '{"detail":"Model not found"}'),
        (400, '{"code":400,"message":"Model not exist."}'),
        (400, "Model 'm' is not supported in realtime mode."),
        (400, "unknown model: m"),
    ],
)
def test_a_model_that_the_endpoint_does_not_have(status: int, body: str) -> None:
    """Whatever the status, the cause is neither the key nor the address."""
    assert kind_of(status, body) is FailureKind.UNKNOWN_MODEL


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, "audio is not supported with this model", FailureKind.HANDSHAKE),
        (404, "the model server was moved; its old path was not found", FailureKind.HANDSHAKE),
        (500, "Model not found", FailureKind.SERVER_ERROR),
        (501, "", FailureKind.SERVER_ERROR),
        (502, "", FailureKind.UNAVAILABLE),
        (503, "", FailureKind.UNAVAILABLE),
        (504, "", FailureKind.UNAVAILABLE),
        (522, "", FailureKind.UNAVAILABLE),
        (401, "Model not found", FailureKind.AUTHENTICATION),
        (429, "Model not found", FailureKind.RATE_LIMITED),
        (
            404,
            '{"error":{"message":"Model not found","code":"session_expired"}}',
            FailureKind.SESSION_EXPIRED,
        ),
        (404, "", FailureKind.HANDSHAKE),
        (404, '{"detail":"Not found."}', FailureKind.HANDSHAKE),
        (402, '{"detail":"Payment Required"}', FailureKind.SESSION_REFUSED),
    ],
)
def test_other_refusals_do_not_count_as_unknown_models(status: int, body: str, kind: FailureKind) -> None:
    assert kind_of(status, body) is kind


@pytest.mark.parametrize("otherwise", [FailureKind.SDP_REFUSED, FailureKind.ENDPOINT_ERROR])
@pytest.mark.parametrize("status", [301, 302, 307, 404, 405, 410])
def test_a_wrong_address_is_one_failure_over_every_transport(status: int, otherwise: FailureKind) -> None:
    assert refused(status, "", otherwise=otherwise).kind is FailureKind.HANDSHAKE
    assert refused(400, "", otherwise=otherwise).kind is otherwise
    assert retry_of(FailureKind.HANDSHAKE) is Retry.NEVER


@pytest.mark.parametrize(
    ("status", "body", "hint"),
    [
        (401, "", "check the key and the base URL: the request path was '/v1/realtime'"),
        (403, "Forbidden", "check the key and the base URL: the request path was '/v1/realtime'"),
        (404, "", "check the base URL: the request path was '/v1/realtime'"),
        (401, '{"error":{"message":"x","code":"invalid_api_key"}}', None),
        (404, '{"error":{"message":"x","code":"model_not_found"}}', None),
        (500, "", None),
    ],
)
def test_a_refusal_that_may_be_due_to_the_path_names_it(status: int, body: str, hint: str | None) -> None:
    message = refused(status, body).message
    assert message.endswith(hint) if hint is not None else "requested path" not in message


@pytest.mark.parametrize("error", [ConnectionResetError("…"), OSError(errno.ECONNRESET, "…")])
def test_a_reset_connection_is_named_in_words(error: OSError) -> None:
    failure = Address(Dial("ws://127.0.0.1:9/v1"), ("ws",)).unreachable(error, 1)
    assert failure.kind is FailureKind.CONNECT_FAILED
    assert failure.message == "ws://127.0.0.1:9/v1: the connection was reset before a response"


def test_the_path_is_named_without_secrets() -> None:
    message = refused(401, "", "wss://h:1/v1/topsecret/realtime?key=topsecret").message
    assert "the request path was '/v1/***/realtime'" in message


def test_the_credentials_of_an_sdk_are_hidden_but_not_its_region() -> None:
    sdk = {"region": "us-east-1", "aws_secret_access_key": "wJalrX-4711", "model_id": "nova"}
    said = Address(Dial("https://h/model/nova", sdk=sdk), ("https",)).hide("nova in us-east-1: wJalrX-4711")
    assert said == "nova in us-east-1: ***"


@pytest.mark.parametrize(
    ("date", "waits_s"),
    [(formatdate(1_000_010, usegmt=True), 20), ("the other day", 3_630), (None, 3_630)],
)
def test_a_date_to_wait_for_is_compared_with_the_date_of_the_answer(date: str | None, waits_s: int) -> None:
    """The local clock is an hour slow."""
    an_hour_ago_ns = (1_000_000 - 3_600) * 1_000_000_000
    assert retry_after_s(formatdate(1_000_030, usegmt=True), an_hour_ago_ns, date) == waits_s


def test_a_short_login_does_not_change_other_words() -> None:
    message = refused(401, "connection refused for hunter2pass", "wss://e:hunter2pass@h:1/v1?v=1").message
    assert "connection refused for ***" in message
    assert message.startswith("wss://h:1/v1")


def test_an_agent_that_does_not_exist() -> None:
    """The service answers with JSON at a path with an agent; at a wrong address, it sends a web page."""
    address = Address(Dial("https://h/api/agents/a1/calls", advice={404: "check the agent"}), ("https",))
    for body, kind in (
        (b'{"detail":{"status":"agent_not_found"}}', FailureKind.SESSION_REFUSED),
        (b'{"detail":"Not found."}', FailureKind.SESSION_REFUSED),
        (b"<h1>Not found</h1>", FailureKind.HANDSHAKE),
    ):
        failure = address.refused(
            404, "", {}, body, expected="JSON", otherwise=FailureKind.SESSION_REFUSED, wall_ns=0
        )
        assert failure.kind is kind
        assert ("base URL" in failure.message) == (kind is FailureKind.HANDSHAKE)
        assert failure.message.endswith("check the agent")


@pytest.mark.parametrize(
    ("location", "advised"),
    [
        ("https://eu.example.org/v1?key=k", True),
        ("/v2", True),
        ("http://169.254.169.254/", False),
        ("//[", False),
    ],
)
def test_an_internal_address_that_a_redirect_names_is_not_advised(location: str, advised: bool) -> None:
    address = Address(Dial("https://example.org/v1"), ("https",))
    message = address.refused(
        302, "", {"Location": location}, b"", expected="JSON", otherwise=FailureKind.HANDSHAKE, wall_ns=0
    ).message
    assert ("use that as the base URL" in message) == advised
    assert "key=k" not in message


def test_advice_by_status_or_kind_ends_the_message() -> None:
    dial = Dial("https://h/api/calls", advice={400: "check the voice", FailureKind.CLOSED: "join earlier"})
    address = Address(dial, ("https",))
    refusal = address.refused(
        400, "", {}, b"Voice x", expected="JSON", otherwise=FailureKind.HANDSHAKE, wall_ns=0
    )
    assert refusal.message.endswith("body: Voice x; check the voice")
    assert address.failure(FailureKind.CLOSED, "call over").message.endswith("call over; join earlier")
    assert address.failure(FailureKind.HANDSHAKE, "no JSON").message.endswith("no JSON")
