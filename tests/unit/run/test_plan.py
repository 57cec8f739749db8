"""The plan of a run: included tasks, and notes on excluded ones."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.clients.specs import DEEPGRAM, NOVA_SONIC, OPENAI
from live_eval.data import sample_path
from live_eval.errors import DataError, UsageError
from live_eval.redaction import SECRETS
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import RunConfig, validate
from live_eval.types import RUN_TASKS, Secret, Task


def planned(data: Path | str, task: str = "all", **table: Any) -> Plan:
    return make_plan(validate({"data": {"path": str(data), **table}, "task": {"name": task}}))


def tasks(plan: Plan) -> list[Task]:
    return list(dict.fromkeys(job.case.task for job in plan.jobs))


def put_recordings(folder: Path, *names: str) -> None:
    for name in names:
        shutil.copy(next(sample_path().rglob("*.flac")), folder / name)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A modifiable copy of the sample's human part."""
    return Path(shutil.copytree(sample_path() / "data_human", tmp_path / "data_human"))


@pytest.mark.parametrize(("asked", "held"), [({}, 1), ({"concurrency": 3}, 3), ({"concurrency": 1}, 1)])
def test_a_run_respects_the_endpoints_limit_on_sessions(asked: dict[str, int], held: int) -> None:
    endpoint = {"name": "speech-to-speech", "base_url": "ws://127.0.0.1:1"}
    plan = make_plan(validate({"endpoint": endpoint, "turns": asked, "data": {"path": "sample"}}))
    assert plan.config.turns.concurrency == held
    said = [note for note in plan.notes if "speech-to-speech supports 1 concurrent session" in note]
    assert bool(said) == (asked != {"concurrency": 1})


def test_a_stored_agent_has_none_of_the_default_models() -> None:
    def planned_with(extra: dict[str, Any]) -> Plan:
        return make_plan(validate({"endpoint": {"name": "deepgram", "extra": extra}}), needs_key=False)

    agent, own = planned_with({"agent": "a1"}), planned_with({"agent": {"greeting": "Hello."}})
    described = agent.manifest()["endpoint"]
    assert (described["model"], described["voice"]) == (None, None)
    sent = agent.settings("wss://host")
    assert (sent.model, sent.voice, sent.transcription_model) == (None, None, "built-in")
    assert (agent.spec.histories, own.spec.histories) == ((), DEEPGRAM.histories)
    assert own.manifest()["endpoint"]["model"] == DEEPGRAM.model
    assert own.settings("wss://host").transcription_model == DEEPGRAM.transcription_model


def test_a_dialect_knows_how_long_a_session_may_take_to_be_ready() -> None:
    plan = make_plan(validate({"turns": {"connect_timeout": 60}}), needs_key=False)
    assert plan.settings("wss://host").ready_s == plan.limits().ready_s == 60


def test_a_run_without_its_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def settings(**more: str) -> RunConfig:
        return validate({"endpoint": {"name": "openai", **more}, "data": {"path": "sample"}})

    with pytest.raises(UsageError, match=r"OpenAI Realtime requires an API key: set .* OPENAI_API_KEY"):
        make_plan(settings())
    with pytest.raises(UsageError, match="MY_KEY"):
        make_plan(settings(key_variable="MY_KEY"))
    assert make_plan(settings(base_url="ws://127.0.0.1:1")).key is None
    with pytest.raises(UsageError, match=r"did you mean ws://127\.0\.0\.1:9999\?"):
        make_plan(settings(base_url="127.0.0.1:9999"))
    with pytest.raises(UsageError, match=r"endpoint\.base_url 'host': expected an address") as refused:
        make_plan(settings(base_url="me:quiet-4711@host"))
    assert "quiet" not in str(refused.value)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert make_plan(settings()).key == Secret("k")


def test_the_address_and_the_name_of_a_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(**more: str) -> Plan:
        return make_plan(validate({"endpoint": {"name": "livekit", **more}, "data": {"path": "sample"}}))

    for variable in ("LIVEKIT_URL", "LIVEKIT_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LIVEKIT_API_SECRET", "quiet-4711")
    with pytest.raises(UsageError, match=r"no default URL: pass --base-url .*, or set LIVEKIT_URL"):
        plan()
    with pytest.raises(UsageError, match=r"besides LIVEKIT_API_SECRET, set .* LIVEKIT_API_KEY, the name of"):
        plan(base_url="wss://mine.example")
    assert plan(base_url="ws://127.0.0.1:1").settings("ws://127.0.0.1:1").key_id is None
    monkeypatch.setenv("MY_TOKEN", "eyJh.eyJz.c2ln")
    assert plan(base_url="wss://mine.example", key_variable="MY_TOKEN").key == Secret("eyJh.eyJz.c2ln")
    monkeypatch.setenv("LIVEKIT_URL", "wss://theirs.example")
    monkeypatch.setenv("LIVEKIT_API_KEY", "my-key")
    found = plan()
    assert (found.base_url, found.key) == ("wss://theirs.example", Secret("quiet-4711"))
    assert found.settings("wss://theirs.example").key_id == "my-key"
    assert "my-key" not in json.dumps(found.manifest())
    assert plan(base_url="wss://mine.example").base_url == "wss://mine.example", "a flag has priority"


def test_a_temporary_key_has_a_token_that_nothing_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "live_eval.run.plan.client", lambda name: replace(NOVA_SONIC, transport=OPENAI.transport)
    )
    for name, value in (("ACCESS_KEY_ID", "AKIA-4711"), ("SECRET_ACCESS_KEY", "quiet-4711")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-session-4711")
    plan = make_plan(validate({"endpoint": {"name": "nova-sonic"}, "data": {"path": "sample"}}))
    settings = plan.settings(str(plan.base_url))
    assert (settings.key, settings.key_id) == (Secret("quiet-4711"), "AKIA-4711")
    assert settings.key_token == Secret("token-of-the-session-4711")
    assert SECRETS.text("token-of-the-session-4711") == "***"
    assert "4711" not in json.dumps(plan.manifest())


def test_a_folder_without_readable_recordings_starts_nothing(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("a.wav", "b.flac"):
        (mine / name).write_text("no audio")
    with pytest.raises(DataError) as caught:
        planned(mine)
    first, *files = str(caught.value).splitlines()
    assert first.endswith(": cannot read any of 2 recordings:")
    assert [line.partition(": ")[0].strip() for line in files] == [f"{mine}/a.wav", f"{mine}/b.flac"]
    put_recordings(mine, "c.flac")
    plan = planned(mine, "conversation")
    assert [job.case.case_id for job in plan.jobs] == ["a", "b", "c"], "a and b become failed turns"


def test_a_manifest_with_a_syntax_error_starts_nothing(tmp_path: Path) -> None:
    manifest = tmp_path / "mine.jsonl"
    manifest.write_text('{"audio": "a.wav"}\n{oops}\n[1]\n')
    with pytest.raises(DataError) as caught:
        make_plan(validate({"data": {"path": str(manifest)}}))
    first, second = str(caught.value).splitlines()
    assert first.startswith("mine.jsonl, line 2, column 2: invalid JSON: ")
    assert second == "mine.jsonl, line 3: expected an object, got [1]"


def test_all_means_every_task_with_the_limit_applied_to_each() -> None:
    plan = planned("sample", limit=2)
    assert [job.case.task for job in plan.jobs] == [task for task in RUN_TASKS for _ in range(2)]
    assert not any("omitted" in note for note in plan.notes)


def test_a_missing_question_file_is_reported_if_all_tasks_are_run(sample: Path) -> None:
    (sample / "MCQ" / "reasoning.json").unlink()
    plan = planned(sample)
    assert tasks(plan) == [Task.TRANSCRIPTION, Task.UNDERSTANDING, Task.CONVERSATION]
    told = "the task reasoning is omitted: expected multiple-choice questions in MCQ/reasoning.json"
    assert [note for note in plan.notes if told in note]
    assert plan.manifest()["data"]["notes"] == list(plan.notes)
    with pytest.raises(UsageError, match=r"no case for the task reasoning: expected multiple-choice"):
        planned(sample, "reasoning")
    assert not any("omitted" in note for note in planned(sample, "conversation").notes)


@pytest.mark.parametrize("content", ["[]", "{}", "["])
def test_an_unreadable_question_file_stops_no_other_task(sample: Path, content: str) -> None:
    (sample / "MCQ" / "reasoning.json").write_text(content)
    assert tasks(planned(sample)) == [Task.TRANSCRIPTION, Task.UNDERSTANDING, Task.CONVERSATION]
    assert tasks(planned(sample, "conversation")) == [Task.CONVERSATION]
    for plan in (planned(sample), planned(sample, "conversation")):
        assert ["reasoning.json" in note for note in plan.notes if "excluded" in note] == [True]
    with pytest.raises(UsageError, match=r"no case for the task reasoning: .*reasoning\.json"):
        planned(sample, "reasoning")


@pytest.mark.parametrize(
    "change", [{"answer": "B"}, {"question": "Really?"}, {"options_text": "A. x\nB. y\nC. z"}]
)
def test_a_run_with_questions_records_their_fingerprint(sample: Path, change: dict[str, str]) -> None:
    def data(task: str) -> dict[str, Any]:
        manifest: dict[str, Any] = planned(sample, task).manifest()
        found: dict[str, Any] = manifest["data"]
        return found

    before = {task: data(task) for task in ("conversation", "understanding", "all")}
    file = sample / "MCQ" / "understanding.json"
    [first, *others] = json.loads(file.read_text())
    assert first["answer"] != "B"
    file.write_text(json.dumps([{**first, **change}, *others]))
    assert data("conversation") == before["conversation"]
    for task in ("understanding", "all"):
        then, now = before[task], data(task)
        assert then.pop("questions_fingerprint") != now.pop("questions_fingerprint")
        assert then == now


def test_instructions_accept_only_known_placeholders() -> None:
    def told(instructions: str) -> str:
        values = {"endpoint": {"instructions": instructions}, "data": {"limit": 1}}
        return make_plan(validate(values)).jobs[0].case.instructions

    assert told('Speak {language}, not {"json": 1}.') == 'Speak en, not {"json": 1}.'
    with pytest.raises(UsageError, match=r"^instructions: unknown placeholder \{name\}.*\{topic\}"):
        told("Answer as {name}.")


def test_data_that_never_has_questions() -> None:
    plan = planned("sample-dialogues")
    assert tasks(plan) == [Task.TRANSCRIPTION, Task.CONVERSATION]
    assert [note for note in plan.notes if "understanding is omitted: a manifest has no" in note]


def test_a_task_without_a_matching_case_is_reported(sample: Path) -> None:
    file = sample / "MCQ" / "understanding.json"
    [first, *_] = json.loads(file.read_text())
    file.write_text(json.dumps([first]))
    other = "family" if first["topic"] == "work" else "work"
    plan = planned(sample, topics=[other])
    assert Task.UNDERSTANDING not in tasks(plan)
    assert [note for note in plan.notes if "understanding is omitted: no case matches" in note]


def test_two_turns_of_one_name_are_refused(tmp_path: Path) -> None:
    put_recordings(tmp_path, "a.wav")
    rows = [{"audio": "a.wav"}, {"audio": "a.wav"}]
    data = tmp_path / "manifest.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    endpoint = {"name": "reference", "base_url": "ws://127.0.0.1:1"}
    asked = {"endpoint": endpoint, "data": {"path": str(data)}}
    assert len(make_plan(validate(asked)).jobs) == 2
    with pytest.raises(UsageError, match=r"'a#2' and 'a' would both record turn 'a#2'"):
        make_plan(validate({**asked, "turns": {"repeat": 2}}))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            {"speech": "backchannel", "anchor": "reply_audible"},
            "'d/2' is backchannel, which expects no answer",
        ),
        ({"anchor": "utterance_ended+5ms"}, "begins at utterance_ended+5ms, before the endpoint may answer"),
        ({"anchor": "reply_audible+400ms"}, None),
    ],
)
def test_in_manual_turns_the_endpoint_hears_only_committed_audio(
    tmp_path: Path, second: dict[str, str], said: str | None
) -> None:
    path = tmp_path / "mine.jsonl"
    put_recordings(tmp_path, "a.wav", "b.wav")
    turns = [{"audio": "a.wav"}, {"audio": "b.wav", **second}]
    path.write_text(json.dumps({"id": "d", "turns": turns}), "utf-8")
    values = {"endpoint": {"name": "reference"}, "data": {"path": str(path)}}
    make_plan(validate(values))
    manual = validate({**values, "turns": {"mode": "manual"}})
    if said is None:
        make_plan(manual)
    else:
        with pytest.raises(UsageError, match=re.escape(said)):
            make_plan(manual)


def test_data_without_any_recording_starts_no_run(tmp_path: Path) -> None:
    data = tmp_path / "manifest.jsonl"
    data.write_text("\n".join(json.dumps({"audio": name}) for name in ("a.wav", "b.wav")))
    config = validate({"endpoint": {"name": "reference"}, "data": {"path": str(data)}})
    with pytest.raises(
        DataError, match=r"manifest\.jsonl: found no recording out of 2: .*a\.wav does not exist"
    ):
        make_plan(config)
    put_recordings(tmp_path, "b.wav")
    plan = make_plan(config)
    assert len(plan.jobs) == 2
    assert [note for note in plan.notes if "missing" in note] == [
        f"{data}: 1 of 2 recordings missing, so their turns will fail: {tmp_path / 'a.wav'} does not exist"
    ]


@pytest.mark.parametrize(
    ("endpoint", "base_url"),
    [
        ("pipecat-webrtc", "http://127.0.0.1:7860"),
        ("fastrtc-webrtc", "http://127.0.0.1:8000"),
        ("moshi", "ws://127.0.0.1:8998"),
        ("speech-to-speech", "ws://127.0.0.1:8765/v1"),
        ("unmute", "ws://127.0.0.1:8000/v1"),
    ],
)
def test_a_server_with_a_default_port_is_expected_on_this_machine(endpoint: str, base_url: str) -> None:
    plan = make_plan(validate({"endpoint": {"name": endpoint}}))
    assert (plan.base_url, plan.key_recipient) == (base_url, None)


def test_an_application_without_a_default_address_needs_one() -> None:
    with pytest.raises(
        UsageError, match=r"has no default URL: pass --base-url with its address \(the base URL is https://"
    ):
        make_plan(validate({"endpoint": {"name": "azure"}}))


def test_an_address_in_the_environment_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^livekit has no default URL.* or set LIVEKIT_URL$"):
        make_plan(validate({"endpoint": {"name": "livekit"}}))
    monkeypatch.setenv("LIVEKIT_URL", "foo")
    with pytest.raises(UsageError, match=r"^LIVEKIT_URL 'foo': expected an address"):
        make_plan(validate({"endpoint": {"name": "livekit"}}))
