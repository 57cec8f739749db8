"""LiveKit's dialect: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.clients.dialects._livekit_token import access_token
from live_eval.clients.dialects.livekit import LiveKitAgent
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    Output,
    SdpBody,
    Send,
    SessionReady,
    SetTimer,
    SpeechStopped,
    StreamText,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Secret

SECOND = 1_000_000_000
WALL_NS = 1_764_300_000 * SECOND
KEY = "s3cr3t-41c9d2-of-32-characters--"
VOICE = {"sid": "TR_1", "name": "roomio_audio", "source": "MICROPHONE"}


def dialect(**settings: Any) -> LiveKitAgent:
    return LiveKitAgent(EndpointSettings(**{"base_url": "wss://host", **settings}))


def agent(does: str | None = None, **fields: Any) -> dict[str, Any]:
    attributes = {} if does is None else {"lk.agent.state": does}
    return {"sid": "PA_1", "identity": "a1", "kind": "AGENT", "attributes": attributes, **fields}


def say(room: LiveKitAgent, kind: str, /, **fields: Any) -> list[Output]:
    return list(room.received(json.dumps({"type": kind, **fields}), 0))


def update(room: LiveKitAgent, *participants: dict[str, Any]) -> list[Output]:
    return say(room, "update", participants=participants)


def listening(**settings: Any) -> LiveKitAgent:
    room = dialect(**settings)
    room.opened(0)
    say(room, "join", room={"name": "r"}, participant={"identity": "live-eval"})
    update(room, agent("listening", tracks=[VOICE]))
    return room


def claims(room: LiveKitAgent) -> dict[str, Any]:
    signed = room.dial().signed
    assert signed is not None
    body = signed(WALL_NS)["Authorization"].removeprefix("Bearer ").split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert isinstance(found, dict)
    return found


# -- Joining -------------------------------------------------------------------------------------------


def test_dial() -> None:
    dial = dialect(base_url="https://host", ice_servers=["stun:h:1"]).dial()
    assert dial.url == "wss://host/rtc?protocol=15&auto_subscribe=0"
    assert dial.headers == {}
    signalling = dial.signalling
    assert signalling is not None
    assert (signalling.offer, signalling.answer) == (SdpBody.MESSAGE, SdpBody.MESSAGE)
    assert signalling.channel == "_reliable"
    assert list(signalling.ice_servers) == ["stun:h:1"]


def test_a_secret_signs_a_token_for_a_separate_room() -> None:
    one, other = (dialect(key=Secret(KEY), key_id="APIkey") for _ in range(2))
    found = claims(one)
    assert found["iss"] == "APIkey"
    assert found["exp"] == 1_764_300_600
    assert found["sub"] == "live-eval"
    grants = found["video"]
    assert grants.pop("room") != claims(other)["video"]["room"]
    assert grants == {"roomJoin": True, "canPublish": True, "canSubscribe": True, "canPublishData": True}
    assert "roomConfig" not in found


def test_a_named_agent_is_dispatched() -> None:
    extra = {"agent_name": "support", "agent_metadata": "{}", "room": "kitchen", "identity": "me"}
    found = claims(dialect(key=Secret(KEY), extra=extra))
    assert found["iss"] == "devkey"
    assert (found["sub"], found["video"]["room"]) == ("me", "kitchen")
    assert found["roomConfig"] == {"agents": [{"agentName": "support", "metadata": "{}"}]}


def test_a_token_is_sent_as_it_is() -> None:
    token = access_token("k", KEY, {"sub": "someone"}, WALL_NS)
    signed = dialect(key=Secret(token)).dial().signed
    assert signed is not None
    assert signed(0) == {"Authorization": f"Bearer {token}"}


def test_no_key_sends_no_token() -> None:
    signed = dialect().dial().signed
    assert signed is not None
    assert signed(WALL_NS) == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"base_url": "host"}, "endpoint.base_url"),
        (
            {"extra": {"agent": "x"}},
            "endpoint.extra.agent: unknown option; expected one of agent_identity, agent_metadata",
        ),
        ({"extra": {"agent_name": True}}, "endpoint.extra.agent_name: expected text"),
        ({"extra": {"room": ""}}, "endpoint.extra.room: expected text"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        dialect(**settings)
    assert said in str(error.value)


# -- The agent -----------------------------------------------------------------------------------------


def test_it_subscribes_to_the_agents_voice_once() -> None:
    room = dialect()
    (wanted,) = update(room, agent("initializing", tracks=[VOICE]))
    assert isinstance(wanted, Send)
    assert json.loads(wanted.message) == {
        "type": "subscription",
        "track_sids": ["TR_1"],
        "subscribe": True,
        "participant_tracks": [{"participant_sid": "PA_1", "track_sids": ["TR_1"]}],
    }
    assert update(room, agent("initializing", tracks=[VOICE])) == []


@pytest.mark.parametrize(
    ("tracks", "sid"),
    [
        ([{"sid": "TR_2", "name": "background_audio"}, VOICE], "TR_1"),
        ([{"sid": "TR_2", "name": "music"}, VOICE], "TR_1"),
        ([{"sid": "TR_3", "type": "VIDEO", "name": "camera"}, {"sid": "TR_4", "name": "bot"}], "TR_4"),
        ([{"sid": "TR_5", "name": "a"}, {"sid": "TR_6", "name": "b"}], "TR_5"),
    ],
)
def test_which_track_is_the_voice(tracks: list[dict[str, str]], sid: str) -> None:
    (wanted,) = update(dialect(), agent("initializing", tracks=tracks))
    assert isinstance(wanted, Send)
    assert json.loads(wanted.message)["track_sids"] == [sid]


@pytest.mark.parametrize("tracks", [[], [{"sid": "TR_2", "name": "background_audio"}], [{"type": "VIDEO"}]])
def test_an_agent_without_a_voice(tracks: list[dict[str, str]]) -> None:
    assert update(dialect(), agent("initializing", tracks=tracks)) == []


@pytest.mark.parametrize("state", ["idle", "listening", "thinking", "speaking"])
def test_it_is_ready_once_the_agent_is(state: str) -> None:
    room = dialect(extra={"room": "r"})
    assert update(room, agent("initializing")) == []
    assert update(room, agent(state)) == [SessionReady("r")]
    assert update(room, agent(state)) == []


def test_an_agent_without_a_state_is_ready_two_seconds_after_its_voice() -> None:
    room = dialect(extra={"room": "r"})
    assert update(room, agent()) == []
    assert update(room, agent(tracks=[VOICE]))[-1] == SetTimer("no state", 2 * SECOND)
    assert update(room, agent(tracks=[VOICE])) == [], "the timer does not restart"
    assert list(room.timer("no state", 2 * SECOND)) == [SessionReady("r")]


def test_an_agent_that_initializes_is_not_ready_two_seconds_after_its_voice() -> None:
    room = dialect()
    update(room, agent(tracks=[VOICE]))
    update(room, agent("initializing", tracks=[VOICE]))
    assert list(room.timer("no state", 2 * SECOND)) == []


PERSON = {"identity": "p", "kind": "STANDARD", "sid": "PA_2"}
SPEAKER = PERSON | {"tracks": [{"sid": "TR_9"}]}


def test_a_person_who_speaks_is_not_the_agent() -> None:
    room = dialect(extra={"room": "r"})
    assert update(room, PERSON, {"identity": "live-eval", "tracks": [VOICE]}) == []
    assert update(room, SPEAKER, agent("listening")) == [SessionReady("r")]
    chosen = dialect(extra={"agent_identity": "p", "room": "r"})
    assert update(chosen, agent("listening"), SPEAKER)[-1] == SetTimer("no state", 2 * SECOND)


def test_an_agent_replaces_a_speaker_until_the_session_is_ready() -> None:
    room, late = dialect(), dialect()
    for each in (room, late):
        assert update(each, SPEAKER)[-1] == SetTimer("no state", 2 * SECOND)
    ends, cancelled, begins = update(room, agent("initializing", tracks=[VOICE]))
    assert isinstance(ends, Send)
    assert isinstance(begins, Send)
    assert json.loads(ends.message) == {"type": "subscription", "track_sids": ["TR_9"], "subscribe": False}
    assert cancelled == SetTimer("no state", None)
    assert json.loads(begins.message)["track_sids"] == ["TR_1"]
    late.timer("no state", 2 * SECOND)
    assert update(late, agent("listening", tracks=[VOICE])) == []


def test_a_speaker_who_leaves_before_the_session_is_ready_was_not_the_agent() -> None:
    room = dialect()
    update(room, SPEAKER)
    ends, cancelled = update(room, PERSON | {"state": "DISCONNECTED"})
    assert isinstance(ends, Send)
    assert cancelled == SetTimer("no state", None)
    (problem,) = room.timer("no agent", 14 * SECOND)
    assert "no agent joined" in str(problem)


def test_the_dispatched_agent_is_the_one_with_the_name() -> None:
    def named(name: str, identity: str) -> dict[str, Any]:
        attributes = {"lk.agent.name": name, "lk.agent.state": "initializing"}
        return agent(identity=identity, tracks=[VOICE]) | {"attributes": attributes}

    room = dialect(extra={"agent_name": "support"})
    assert update(room, named("sales", "a1")) == []
    (begins,) = update(room, named("", "a2"))
    assert isinstance(begins, Send)
    ends, *_ = update(room, named("support", "a3"))
    assert isinstance(ends, Send)
    assert [json.loads(each.message)["subscribe"] for each in (begins, ends)] == [True, False]
    (problem,) = room.timer("no agent", 14 * SECOND)
    assert "the agent 'a3' was still 'initializing'" in str(problem)


def test_a_dispatched_agent_is_not_a_person() -> None:
    assert update(dialect(extra={"agent_name": "support"}), SPEAKER) == []


def test_no_agent() -> None:
    room = dialect(extra={"room": "r"})
    assert list(room.opened(0)) == [SetTimer("no agent", 14 * SECOND)]
    (problem,) = room.timer("no agent", 14 * SECOND)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (FailureKind.NO_SESSION, True)
    assert "no agent joined room 'r' within 14 s: start its worker" in problem.message
    assert list(dialect(ready_s=60.0).opened(0)) == [SetTimer("no agent", 59 * SECOND)]
    (later,) = dialect(extra={"room": "r"}, ready_s=60.0).timer("no agent", 59 * SECOND)
    assert "no agent joined room 'r' within 59 s" in str(later)
    assert list(dialect(ready_s=1.0).opened(0)) == [SetTimer("no agent", SECOND // 2)]
    (named,) = dialect(extra={"agent_name": "support"}).timer("no agent", 0)
    assert isinstance(named, EndpointProblem)
    assert "is a worker registered as 'support'?" in named.message


def test_an_agent_that_is_never_ready() -> None:
    room = dialect()
    update(room, agent("initializing"))
    (problem,) = room.timer("no agent", 14 * SECOND)
    assert isinstance(problem, EndpointProblem)
    assert "the agent 'a1' was still 'initializing' after 14 s" in problem.message
    silent = dialect()
    update(silent, agent())
    (problem,) = silent.timer("no agent", 14 * SECOND)
    assert "the agent 'a1' had published no audio after 14 s" in str(problem)
    assert list(listening().timer("no agent", 14 * SECOND)) == []
    assert list(room.timer("no such timer", 0)) == []


def test_thinking_ends_the_users_turn() -> None:
    room = listening()
    assert update(room, agent("thinking")) == [SpeechStopped()]
    assert update(room, agent("speaking")) == []
    assert update(room, agent("thinking")) == [], "a tool runs"


@pytest.mark.parametrize("reason", ["AGENT_ERROR", None])
def test_an_agent_that_leaves(reason: str | None) -> None:
    room = listening()
    (problem,) = update(room, agent(state="DISCONNECTED", disconnect_reason=reason))
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (FailureKind.CLOSED, True)
    assert f"the agent 'a1' left the room ({reason or 'no reason given'})" in problem.message
    assert list(room.closed(1000, "", 0)) == []


@pytest.mark.parametrize(
    ("reason", "said"), [("DUPLICATE_IDENTITY", "use a token for each session"), ("MIGRATION", "no further")]
)
def test_the_server_ends_the_session(reason: str, said: str) -> None:
    (problem,) = say(listening(), "leave", reason=reason)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.CLOSED
    assert f"the server ended the session ({reason})" in problem.message
    assert said in problem.message


def test_it_leaves() -> None:
    room = listening()
    leave, close = room.finish(0)
    assert isinstance(leave, Send)
    assert json.loads(leave.message) == {"type": "leave", "reason": "CLIENT_INITIATED"}
    assert close == Close()
    assert say(room, "leave") == []
    assert update(room, agent(state="DISCONNECTED")) == []


def test_text_before_the_session_is_ready_is_ignored() -> None:
    header = {"topic": "lk.transcription", "stream_id": "s", "participant_identity": "a1"}
    piece = {"stream_id": "s", "content": "aGk="}
    early = dialect()
    assert say(early, "stream_header", **header) + say(early, "stream_chunk", **piece) == []
    room = listening()
    assert say(room, "stream_header", **header) + say(room, "stream_chunk", **piece) == [StreamText("hi")]
    assert say(room, "stream_trailer", stream_id="s") == []


def test_the_key_and_the_token_are_not_revealed() -> None:
    room = dialect(key=Secret(KEY))
    signed = room.dial().signed
    assert signed is not None
    token = signed(WALL_NS)["Authorization"].removeprefix("Bearer ")
    outputs = say(room, "leave", reason=f"{KEY} {token}")
    assert KEY not in str(outputs)
    assert token not in str(outputs)
    assert KEY not in repr(room.dial())
