import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from live_eval.cli._flags import FLAGS, configured, parse_pairs
from live_eval.cli.run import _check_same, _run_file, command
from live_eval.errors import PluginError, RunFileError, StoreError, UsageError
from live_eval.redaction.settings import public_settings
from live_eval.registry import client, judge
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig, located, read_run_file, validate
from live_eval.types import TurnMode, Variant

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.toml"))


def check(tmp_path: Path, text: str) -> RunConfig:
    path = tmp_path / "my.toml"
    path.write_text(text, "utf-8")
    return validate(read_run_file(path), path)


def test_an_empty_run_file_is_the_demo() -> None:
    config = validate({})
    assert (config.endpoint.name, config.data.path) == ("reference", "sample")


def test_values_are_read(tmp_path: Path) -> None:
    config = check(
        tmp_path,
        """
        [endpoint]
        name = "openai"
        turn_detection = { type = "semantic_vad", eagerness = "low" }
        [data]
        path = "EchoMind"
        variants = ["target"]
        fields = { text = "script.spoken" }
        [turns]
        mode = "manual"
        concurrency = 8
        [output]
        out = "recordings/x"
        """,
    )
    assert config.endpoint.turn_detection == {"type": "semantic_vad", "eagerness": "low"}
    assert config.data.variants == (Variant.TARGET,)
    assert config.turns.mode is TurnMode.MANUAL
    assert config.output.out == Path("recordings/x")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[turns]\nconcurency = 3\n", 2, ["turns.concurency", "did you mean concurrency?", "word_times"]),
        ("[turns]\n\nconcurrency = 0\n", 3, ["turns.concurrency = 0", "expected 1 or more"]),
        (
            "[data]\nvariants = ['target', 'angry']\n",
            2,
            ["'angry'", "expected target, neutral or alter"],
        ),
        ("turns.mode = 'loud'\n", 1, ["turns.mode = 'loud'", "expected server_vad, manual or"]),
        ("[turn]\nmode = 'manual'\n", 1, ["unknown key 'turn'", "did you mean turns?", "endpoint"]),
        ("[endpoint]\nname = 3\n", 2, ["endpoint.name = 3", "expected text"]),
        (
            "[endpoint]\nname = 'a'\n[endpoint.extra]\nx = 1\n[data]\nlimit = 'all'\n",
            6,
            ["data.limit = 'all'"],
        ),
    ],
)
def test_an_error_names_the_key_the_line_and_the_allowed_values(
    tmp_path: Path, text: str, line: int, said: list[str]
) -> None:
    with pytest.raises(RunFileError) as caught:
        check(tmp_path, text)
    message = str(caught.value)
    assert f"my.toml:{line}: " in message
    for words in said:
        assert words in message


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(RunFileError) as caught:
        check(tmp_path, "[turns]\nrepeat = 0\nretries = -1\n")
    assert len(str(caught.value).splitlines()) == 2


def test_malformed_toml_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="not valid TOML"):
        check(tmp_path, "[turns\n")
    with pytest.raises(RunFileError, match="cannot be read"):
        read_run_file(tmp_path / "absent.toml")


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[turns]\nrepeat = 3\n", "utf-8-sig")
    assert validate(read_run_file(path), path).turns.repeat == 3
    path.write_text("[turns]\nrepeat = 0\n", "utf-8-sig")
    with pytest.raises(RunFileError, match=r"my\.toml:2: turns\.repeat"):
        validate(read_run_file(path), path)


def test_every_key_has_its_flag_and_every_flag_its_key() -> None:
    keys = {
        f"{table}.{key}"
        for table, field in RunConfig.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]
    }
    assert set(FLAGS) == keys
    assert len(set(FLAGS.values())) == len(FLAGS)
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert options == {*FLAGS.values(), "--trust-host"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    assert validate(tomllib.loads(path.read_text("utf-8")), path)


def test_there_are_two_examples() -> None:
    assert len(EXAMPLES) >= 2


def test_a_value_refused_later_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[endpoint]\nname = "nobody"\n')
    told = pytest.raises(RunFileError, match=r"my\.toml:2: endpoint\.name: unknown endpoint 'nobody'")
    with told, located("endpoint.name", path):
        client("nobody")
    with pytest.raises(PluginError, match=r"^unknown judge 'nobody'"), located("judges.names", path):
        judge("nobody")


def test_a_run_is_resumed_with_a_new_key_even_if_it_stored_the_old_one() -> None:
    def manifest(secret: str) -> dict[str, Any]:
        extra = {"tools": [{"headers": {"X-Key": secret}}]}
        endpoint = {"base_url": f"ws://me:{secret}@h/v1?sig={secret}", "extra": extra}
        return make_plan(validate({"endpoint": endpoint})).manifest()

    before, now = manifest("quiet-4711"), manifest("quiet-4712")
    assert "quiet" not in json.dumps([before, now])
    _check_same(before, now)
    # As an earlier version kept it.
    before["config"]["endpoint"]["extra"] = {"tools": [{"headers": {"X-Key": "quiet-4711"}}]}
    _check_same(before, now)
    before["config"]["endpoint"]["base_url"] = "ws://elsewhere/v1"
    with pytest.raises(StoreError, match=r"endpoint\.base_url was 'ws://elsewhere/v1'"):
        _check_same(before, now)


def test_logins_of_turn_servers_stay_out_of_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    servers = ["stun:stun.example:3478", "turn:me:hush-4711@turn.example:3478"]
    endpoint = {"name": "openai-webrtc", "ice_servers": servers, "base_url": "http://me:hush-4711@h/v1"}
    plan = make_plan(validate({"endpoint": endpoint}))
    assert tuple(plan.settings("http://h").ice_servers) == tuple(servers)
    manifest = json.dumps(plan.manifest())
    assert "turn:***@turn.example:3478" in manifest
    assert "hush-4711" not in manifest


def test_json_in_a_setting_is_parsed() -> None:
    tools = '[{"name": "f", "headers": {"Authorization": "Bearer canary"}}]'
    pairs = parse_pairs("--extra", [f"tools={tools}", "note={not json", "n=5", 'inline={ a = "b" }'])
    assert pairs == {"tools": json.loads(tools), "note": "{not json", "n": 5, "inline": {"a": "b"}}
    assert "canary" not in str(public_settings(pairs))


def test_durations_have_units_in_files_and_flags(tmp_path: Path) -> None:
    config = check(tmp_path, "[turns]\nconnect_timeout = '500ms'\npause = 1\npatience = '10m'\n")
    assert (config.turns.connect_timeout, config.turns.pause, config.turns.patience) == (0.5, 1, 600)
    assert configured({}, {"data__max_recording": "2m"}).data.max_recording == 120


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"turns__concurrency": "0"}, "--concurrency '0': expected 1 or more"),
        ({"turns__reply_timeout": "soon"}, "--reply-timeout 'soon': expected a duration, such as 15"),
        ({"task__name": "talk"}, "--task 'talk': expected conversation, transcription"),
        ({"judges__device": "cup"}, "--device 'cup': expected cpu or cuda (did you mean cpu?)"),
        ({"endpoint__key_variable": "sk-quiet"}, "--key-variable ***: expected the name of"),
    ],
)
def test_an_error_in_a_flag_names_the_flag(flags: dict[str, str], message: str) -> None:
    with pytest.raises(RunFileError) as caught:
        configured({}, flags)
    assert str(caught.value).startswith(message)


def test_a_word_is_an_endpoint_or_a_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags: dict[str, Any] = {"endpoint__name": None}
    assert _run_file("openai", flags) is None
    assert flags == {"endpoint__name": "openai"}
    with pytest.raises(UsageError, match="expected one endpoint, found gemini-live and --endpoint openai"):
        _run_file("gemini-live", flags)
    Path("settings").write_text("")
    for name in ("my.toml", "folder/mine", "settings"):
        assert _run_file(name, {}) == Path(name)
