"""Run files: every key, defaults, and errors with their line."""

import json
import tomllib
from pathlib import Path

import pytest

from live_eval.errors import PluginError, RunFileError, UsageError
from live_eval.registry import client, judge
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig, located, read_run_file, validate
from live_eval.types import TurnMode, Variant


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
        ("endpoint = 3\n", 1, ["endpoint = 3", "expected a table of keys and values"]),
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
    with pytest.raises(RunFileError, match="cannot read run file"):
        read_run_file(tmp_path / "absent.toml")


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[turns]\nrepeat = 3\n", "utf-8-sig")
    assert validate(read_run_file(path), path).turns.repeat == 3
    path.write_text("[turns]\nrepeat = 0\n", "utf-8-sig")
    with pytest.raises(RunFileError, match=r"my\.toml:2: turns\.repeat"):
        validate(read_run_file(path), path)


def test_the_example_is_valid() -> None:
    path = Path(__file__).parents[3] / "examples" / "latency-profile.toml"
    assert validate(tomllib.loads(path.read_text("utf-8")), path)


def test_a_value_refused_later_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[endpoint]\nname = "nobody"\n')
    told = pytest.raises(RunFileError, match=r"my\.toml:2: endpoint\.name: unknown endpoint 'nobody'")
    with told, located(path, {}, "endpoint.name"):
        client("nobody")
    with pytest.raises(PluginError, match=r"^unknown judge 'nobody'"), located(path, {}, "judges.names"):
        judge("nobody")
    path.write_text('[turns]\nmode = "manual"\n')
    flags = {"turns__mode": None}
    refused = UsageError("turns.mode 'manual': expected full_duplex")
    with (
        pytest.raises(RunFileError, match=r"my\.toml:2: turns\.mode 'manual': expected"),
        located(path, flags),
    ):
        raise refused
    with pytest.raises(UsageError, match=r"^turns\.mode"), located(path, {"turns__mode": "manual"}):
        raise refused


def test_logins_of_turn_servers_stay_out_of_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    servers = ["stun:stun.example:3478", "turn:me:hush-4711@turn.example:3478"]
    endpoint = {"name": "openai-webrtc", "ice_servers": servers, "base_url": "http://me:hush-4711@h/v1"}
    plan = make_plan(validate({"endpoint": endpoint}))
    assert tuple(plan.settings("http://h").ice_servers) == tuple(servers)
    manifest = json.dumps(plan.manifest())
    assert "turn:***@turn.example:3478" in manifest
    assert "hush-4711" not in manifest


def test_durations_in_files_have_units(tmp_path: Path) -> None:
    config = check(tmp_path, "[turns]\nconnect_timeout = '500ms'\npause = 1\npatience = '10m'\n")
    assert (config.turns.connect_timeout, config.turns.pause, config.turns.patience) == (0.5, 1, 600)


def test_no_judges_can_be_named() -> None:
    assert validate({"judges": {"names": ["none"]}}).judges.names == ()
    assert validate({"judges": {"names": []}}).judges.names == ()
    with pytest.raises(RunFileError, match="none cannot be combined with other judges"):
        validate({"judges": {"names": ["none", "mcq"]}})
