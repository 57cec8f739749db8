"""Settings that a command reuses from an untrusted manifest."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.cli._flags import FLAGS
from live_eval.cli._stored_settings import judges_table, stored_settings
from live_eval.errors import UsageError
from live_eval.recording import RunWriter
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig, validate

VARIABLE = "MY_BANK_PIN"
KEY = "canary4711canary"
ELSEWHERE = "https://thief.example/v1"
HERE = "http://127.0.0.1:8000/v1"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def asked(config: dict[str, Any], *trusted: str, given: dict[str, Any] | None = None) -> list[str]:
    """Return the arguments that the user is asked to type."""
    tables = {"judges": {"names": []}} | config
    try:
        stored_settings({"config": tables, "redacted": []}, given or {}, trusted)
    except UsageError as error:
        message, *lines = str(error).splitlines()
        assert "The values below are from the folder" in message
        return [part for line in lines for part in shlex.split(line)]
    return []


def asking(**judges: Any) -> dict[str, Any]:
    return {"judges": {"names": ["rubric"], **judges}}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"endpoint": {"name": "openai", "key_variable": VARIABLE}}, ["--key-variable", VARIABLE]),
        ({"endpoint": {"name": "openai", "key_from": "file:/k"}}, ["--key-from", "file:/k"]),
        ({"endpoint": {"name": "openai", "base_url": ELSEWHERE}}, ["--trust-host", "thief.example"]),
        ({"endpoint": {"name": "openai", "base_url": "ws://10.0.0.1/v1"}}, ["--trust-host", "ws://10.0.0.1"]),
        ({"endpoint": {"ice_servers": ["turn:t.example:3478"]}}, ["--ice-servers", "turn:t.example:3478"]),
        (
            {"endpoint": {"ice_servers": ["turn:me:hunter2@t.example"]}},
            ["--ice-servers", "turn:***@t.example"],
        ),
        ({"data": {"path": "/home/me/diary"}}, ["--data", "/home/me/diary"]),
        ({"data": {"path": "sample", "audio_root": "/home"}}, ["--audio-root", "/home"]),
        ({"task": {"prompt": "/home/me/.ssh/id_ed25519"}}, ["--prompt", "/home/me/.ssh/id_ed25519"]),
        ({"impair": {"specs": ["gain=1dB,room=/x.wav"]}}, ["--impair", "gain=1dB,room=/x.wav"]),
        ({"impair": {"specs": ["noise=5dB", "noise_type=/x"]}}, ["--impair", "noise=5dB"]),
        (asking(llm_key_variable=VARIABLE), ["--llm-key-variable", VARIABLE]),
        (asking(llm_key_from="keyring:bank/pin"), ["--llm-key-from", "keyring:bank/pin"]),
        (asking(llm_base_url=ELSEWHERE), ["--trust-host", "thief.example"]),
        (asking(llm_base_url=HERE), ["--trust-host", "127.0.0.1:8000"]),
        ({"endpoint": {"name": "openai", "base_url": "ws://[::1]:1/v1"}}, ["--trust-host", "[::1]:1"]),
        (asking(options={"rubric.base_url": ELSEWHERE}), ["--trust-host", "thief.example"]),
        (
            asking(options={"rubric": {"key_variable": VARIABLE}}),
            ["--set", f"rubric.key_variable={VARIABLE}"],
        ),
        (asking(options={"rubric.prompt": "/etc/passwd"}), ["--set", "rubric.prompt=/etc/passwd"]),
        (
            {"judges": {"names": ["nisqa"], "options": {"nisqa.weights": "evil.tar"}}},
            ["--set", "nisqa.weights=evil.tar"],
        ),
    ],
)
def test_what_acts_on_this_machine_is_to_be_given_again(config: dict[str, Any], wanted: list[str]) -> None:
    assert asked(config)[:2] == wanted


def test_a_key_and_a_host_are_required_together() -> None:
    config = asking(llm_base_url=HERE, llm_key_variable=VARIABLE)
    assert asked(config) == ["--llm-key-variable", VARIABLE, "--trust-host", "127.0.0.1:8000"]
    given = {"judges": {"llm_key_variable": VARIABLE}}
    assert asked(config, "127.0.0.1:8000", given=given) == []


def test_the_users_settings_replace_the_stored_ones() -> None:
    config = {
        "endpoint": {"name": "openai", "base_url": ELSEWHERE, "key_variable": VARIABLE},
        "data": {"path": "/x"},
    }
    given = {
        "endpoint": {"base_url": HERE, "key_variable": "MINE"},
        "data": {"path": "sample"},
    }
    assert asked(config, given=given) == []
    assert (
        asked(asking(llm_base_url=ELSEWHERE, llm_key_variable=VARIABLE), given={"judges": {"llm": "openai"}})
        == []
    )


def test_settings_without_consequences_are_taken() -> None:
    config = {
        "endpoint": {"name": "openai", "model": "m", "instructions": "Be calm.", "extra": {"speed": 1.2}},
        "data": {"path": "sample", "limit": 2},
        "task": {"prompt": "enhance"},
        "impair": {"specs": ["noise=5dB,noise_type=white"]},
        "cluster": {"ray": "thief.example:6379"},
        "output": {"out": "/elsewhere", "record_wire": True},
        "judges": {
            "names": ["bleu"],
            "recordings": ["/home"],
            "samples": 3,
            "options": {"bertscore.layer": "9"},
        },
    }
    taken = stored_settings({"config": config, "redacted": []}, {}, ())
    assert "cluster" not in taken
    assert "output" not in taken
    assert taken["endpoint"] == config["endpoint"]
    assert taken["impair"] == config["impair"]
    assert taken["judges"] == {"names": ["bleu"], "samples": 3, "options": {}}


def test_the_vendors_own_address_and_key_need_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint = {"name": "openai", "base_url": "wss://api.openai.com/v1/", "key_variable": "OPENAI_API_KEY"}
    assert asked({"endpoint": endpoint}) == []
    judges = {"llm_base_url": "https://api.openai.com/v1", "llm_key_variable": "OPENAI_API_KEY"}
    assert asked(asking(**judges)) == []
    assert asked(asking(**judges | {"llm_key_variable": "GEMINI_API_KEY"}))[:1] == ["--llm-key-variable"]
    # The default key of one service is not sent to another address.
    assert asked(asking(llm_base_url=HERE, llm_key_variable="OPENAI_API_KEY"))[:1] == ["--llm-key-variable"]
    assert asked(asking(options={"rubric.key_variable": "OPENAI_API_KEY"}, llm_base_url=HERE)) != []
    elsewhere = asking(options={"rubric.base_url": HERE}, llm_key_variable="OPENAI_API_KEY")
    assert asked(elsewhere)[:1] == ["--llm-key-variable"]


def test_an_address_on_this_machine_needs_a_flag_unless_the_command_launches_the_endpoint() -> None:
    assert (
        asked({"endpoint": {"name": "openai", "base_url": "ws://localhost:8765/v1"}}, "LOCALHOST:8765") == []
    )
    assert asked({"endpoint": {"name": "reference"}}) == []


@pytest.mark.parametrize(
    ("url", "trusted", "is_used"),
    [
        (ELSEWHERE, "thief.example", True),
        (ELSEWHERE, "https://thief.example:443", True),
        (ELSEWHERE, "thief.example:8443", False),
        ("https://thief.example:8443/v1", "thief.example", False),
        ("https://thief.example:8443/v1", "thief.example:8443", True),
        ("https://api.openai.com.thief.example/v1", "api.openai.com", False),
        ("http://api.openai.com/v1", "api.openai.com", False),
        ("http://api.openai.com/v1", "http://api.openai.com", True),
        ("https://api.openai.com\\@thief.example/v1", "api.openai.com", False),
        ("https://api.openai.com@thief.example/v1", "thief.example", False),
        ("https://thief.example\t/v1", "thief.example", False),
        ("https://127.0.0.1.thief.example/v1", "127.0.0.1", False),
        ("https://[::1/v1", "::1", False),
        ("file:///etc/passwd", "etc", False),
    ],
)
def test_a_trusted_host_is_exactly_the_host_of_the_address(url: str, trusted: str, is_used: bool) -> None:
    hosts = [trusted] if not trusted.startswith(":") else []
    assert (asked(asking(llm_base_url=url), *hosts) == []) is is_used


def test_output_cannot_control_a_terminal() -> None:
    config = asking(options={"rubric.prompt": "a\x1b]52;c;aGk=\x07\u202eb;$(id)\n"})
    assert asked(config)[1] == "rubric.prompt=a?]52;c;aGk=??b;$(id)?"


def test_an_invalid_host_cannot_be_trusted() -> None:
    with pytest.raises(UsageError, match="expected HOST"):
        stored_settings({"config": asking()}, {}, ["https://a@b/"])


def test_every_setting_that_is_a_path_an_address_or_a_key_has_been_decided() -> None:
    decided = {
        "cluster.ray",  # never used
        "data.audio_root",
        "data.path",
        "endpoint.base_url",
        "endpoint.ice_servers",
        "endpoint.key_from",
        "endpoint.key_variable",
        "judges.llm_base_url",
        "judges.llm_key_from",
        "judges.llm_key_variable",
        "judges.options",
        "judges.recordings",  # never used
        "impair.specs",
        "judges.jobs",  # never used
        "output.out",  # never used
        "task.prompt",
    }
    inert = {
        "cluster.timing_bound", "data.cases", "data.cues", "data.fields", "data.limit",
        "data.flawed_takes", "data.max_recording", "data.neutral_rule", "data.part", "data.topics",
        "data.variants", "endpoint.extra", "endpoint.instructions", "endpoint.language",
        "endpoint.max_output_tokens",
        "endpoint.modality", "endpoint.model", "endpoint.name", "endpoint.transcription_model",
        "endpoint.turn_detection", "endpoint.voice", "judges.device", "judges.llm", "judges.llm_attempts",
        "judges.llm_concurrency", "judges.llm_model", "judges.llm_timeout", "judges.max_calls",
        "judges.max_cost", "judges.max_tokens", "judges.names", "judges.prices", "judges.samples",
        "judges.temperature", "output.open_report", "output.record_wire", "output.report", "output.resume",
        "output.retry_failed", "task.name", "task.transcription_variants",
    }  # fmt: skip
    turns = {key for key in FLAGS if key.startswith("turns.")}  # numbers and switches
    assert set(RunConfig.model_fields) == {key.partition(".")[0] for key in FLAGS}
    assert set(FLAGS) == decided | inert | turns


def stored_run(folder: Path, **tables: Any) -> Path:
    config = validate({"data": {"limit": 1}, "judges": {"names": ("bleu",)}})
    with RunWriter.create(folder, make_plan(config).manifest()) as writer:
        writer.end()
    with sqlite3.connect(folder / "run.sqlite") as db:
        manifest = json.loads(db.execute("SELECT manifest FROM run").fetchone()[0])
        for table, keys in tables.items():
            manifest["config"][table].update(keys)
        db.execute("UPDATE run SET manifest = ?", (json.dumps(manifest),))
    db.close()
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("score", "RUN"),
        ("audit", "rubric", "RUN"),
        ("arena", "RUN", "OTHER"),
        ("run", "--retry-failed", "--out", "RUN"),
    ],
    ids=lambda command: str(command[0]),
)
def test_no_command_reads_a_key_that_a_manifest_names(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(source: str) -> None:
        raise AssertionError(f"{source} was read")

    monkeypatch.setattr("live_eval.scoring.llm.options.find_key", read)
    monkeypatch.setattr("live_eval.run.plan.find_key", read)
    judges = {
        "names": ["rubric", "arena"],
        "llm_base_url": ELSEWHERE,
        "llm_key_variable": VARIABLE,
        "options": {"rubric.key_from": "file:/home/me/.netrc"},
    }
    endpoint = {"name": "openai", "base_url": ELSEWHERE, "key_variable": VARIABLE}
    run = stored_run(tmp_path / "run", judges=judges, endpoint=endpoint)
    folders = {"RUN": str(run), "OTHER": str(stored_run(tmp_path / "other"))}
    done = CliRunner().invoke(cli, [folders.get(part, part) for part in command])
    assert isinstance(done.exception, UsageError)
    assert "--trust-host thief.example" in str(done.exception)


def test_the_host_that_receives_a_key_is_printed(tmp_path: Path) -> None:
    run = stored_run(tmp_path / "run", judges={"names": ["rubric"], "llm_base_url": ELSEWHERE})
    flags = ["--trust-host", "thief.example", "--llm-key-variable", VARIABLE]
    done = CliRunner().invoke(cli, ["score", str(run), *flags])
    assert f"note: thief.example receives the key in {VARIABLE}\n" in done.stderr
    assert judges_table(run, {"trusted": ("thief.example",)}).llm_base_url == ELSEWHERE
