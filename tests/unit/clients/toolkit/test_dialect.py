"""The bases of dialects, and the exports of the toolkit."""

import pytest

from live_eval.clients import toolkit
from live_eval.clients.toolkit import BaseDialect, EventDialect, ResponseTracker, refuse_settings
from live_eval.dialect import Close, EndpointProblem, EndpointSettings, SessionReady, UnknownEvent
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, Secret, TurnMode

KEY = "sk-toolkit-1234567890"
SETTINGS = EndpointSettings(base_url="ws://127.0.0.1:9", key=Secret(KEY))


def test_every_public_name_is_exported_and_documented() -> None:
    public = {name for name in vars(toolkit) if name[0] not in "_@"}  # pytest adds names with @
    assert public == set(toolkit.__all__)
    assert [
        name
        for name in toolkit.__all__
        if name[0].isupper()
        and not name.isupper()
        and name != "Handler"
        and not getattr(toolkit, name).__doc__
    ] == []


def test_a_base_dialect_waits_closes_and_is_silent_after_that() -> None:
    dialect = BaseDialect(SETTINGS)
    assert not dialect.opened(0)
    assert not dialect.frame(b"", 0)
    assert not dialect.end_turn(0)
    assert not dialect.interrupt("r1", 0, 0)
    assert not dialect.timer("none", 0)
    assert dialect.finish(0) == (Close(),)
    assert not dialect.closed(1006, "", 0)


def test_a_connection_that_ends_before_the_session_is_ready_is_fatal() -> None:
    dialect = BaseDialect(SETTINGS)
    (problem,) = dialect.closed(1008, f"bad key {KEY}", 0)
    text = "the endpoint closed the connection before the session was ready: code 1008, reason 'bad key ***'"
    assert problem == EndpointProblem(FailureKind.CLOSED, text, fatal=True)
    ready = BaseDialect(SETTINGS)
    assert ready.become_ready("s1") == [SessionReady("s1")]
    assert ready.become_ready("s1") == []
    (problem,) = ready.closed(1000, "", 0)
    assert isinstance(problem, EndpointProblem)
    assert not problem.fatal


def test_problems_show_no_key() -> None:
    dialect = BaseDialect(SETTINGS)
    problems = [
        dialect.warning(KEY),
        dialect.malformed(KEY),
        dialect.fatal(FailureKind.ENDPOINT_ERROR, KEY),
    ]
    assert [problem.message for problem in problems] == ["***"] * 3
    assert dialect.unknown(KEY) == UnknownEvent("***")
    dialect.secrets.add("issued-87654321")
    assert dialect.become_ready("room-issued-87654321") == [SessionReady("***")]
    assert dialect.over


def test_the_log_shows_neither_audio_nor_secrets() -> None:
    class Vendor(BaseDialect):
        audio_fields = ("pcm",)
        secret_fields = ("pin",)

    logged = Vendor(SETTINGS).redact('{"pcm":"AAAAAAAA","pin":"1234","note":"' + KEY + '"}')
    assert logged == {"pcm": {"bytes": 6}, "pin": "***", "note": "***"}
    assert Vendor(SETTINGS).redact(b"\x00\x01") == {"raw": {"bytes": 2}}


def test_events_are_handled_by_the_type_that_the_dialect_names() -> None:
    class Vendor(EventDialect):
        type_field = "op"
        before_ready = frozenset({"hello"})
        ignored = frozenset({"pulse"})

        def __init__(self, settings: EndpointSettings) -> None:
            super().__init__(settings)
            self.handlers = {
                "hello": lambda event, at_ns: self.become_ready(event.text("room")),
                "later": lambda event, at_ns: [],
            }

    dialect = Vendor(SETTINGS)
    (early,) = dialect.received('{"op":"later"}', 0)
    assert early == dialect.warning("ignored later: it arrived before the session was ready")
    assert dialect.received('{"op":"hello","room":"r1"}', 0) == [SessionReady("r1")]
    assert not dialect.received('{"op":"later"}', 0)
    assert not dialect.received('{"op":"pulse"}', 0)
    assert dialect.received('{"op":"new"}', 0) == (UnknownEvent("new"),)
    (wrong,) = dialect.received('{"op":"hello","room":7}', 0)
    assert wrong == dialect.malformed("hello: expected a string in 'room', got a number")
    (nameless,) = dialect.received("{}", 0)
    assert nameless == dialect.malformed("expected a string in 'op'")


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        (EndpointSettings(base_url="", modality=Modality.TEXT), "endpoint.modality: only speaks"),
        (EndpointSettings(base_url="", turn_mode=TurnMode.MANUAL), "turns.mode: ends turns itself"),
    ],
)
def test_settings_that_a_service_does_not_have_are_refused(settings: EndpointSettings, refused: str) -> None:
    with pytest.raises(UsageError, match=refused):
        refuse_settings(settings, modality="only speaks", turn_mode="ends turns itself")


def test_an_interruption_stops_the_response_that_is_heard() -> None:
    responses = ResponseTracker()
    assert responses.audible(0) is None
    first = responses.begin()
    assert first.response_id == "reply_1"
    assert responses.audible(0) is first
    assert first.received(None, 0, 8_000, 8_000, 0) == []
    responses.end(first)
    assert responses.audible(999_999_999) is first
    assert responses.audible(1_000_000_000) is None
    (late,) = first.received(None, 0, 80, 8_000, 0)
    assert isinstance(late, EndpointProblem)
    assert late.kind is FailureKind.AUDIO_AFTER_DONE
    assert first.received(None, 0, 80, 8_000, 0) == []
    first.interrupted = True
    assert responses.audible(0) is None
    assert responses.begin().response_id == "reply_2"
