"""Flags of a run: their keys in a run file, and errors."""

import json
from pathlib import Path

import pytest

from live_eval.analysis.audit.auditor import PARTS
from live_eval.audio import MAX_RECORDING_S
from live_eval.cli import _flags, _options, audit, data
from live_eval.cli._flag_table import flag_table
from live_eval.cli._flags import FLAGS, configured, parse_pairs
from live_eval.cli.run import command
from live_eval.errors import RunFileError, UsageError
from live_eval.redaction.secret_settings import public_settings
from live_eval.run.run_file import RunConfig

OWN = (
    *("--assert", "--assume", "--estimate", "--json", "--preset", "--price", "--simultaneous"),
    *("--trust-host", "--until-stdin-ends"),
)


def test_every_key_has_its_flag_and_every_flag_its_key() -> None:
    keys = {
        f"{table}.{key}"
        for table, field in RunConfig.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]
    }
    assert set(FLAGS) == keys
    assert len(set(FLAGS.values())) == len(FLAGS)
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert options == {*FLAGS.values(), *OWN}


def test_the_stored_description_is_that_of_the_models() -> None:
    path = Path(_flags.__file__).with_name("run_flags.json")
    assert json.loads(path.read_text("utf-8")) == flag_table(), "run: python -m live_eval.cli._flag_table"


def test_help_contains_the_values_of_modules_that_it_does_not_import() -> None:
    options = {
        option.name: option
        for each in (audit.command, data.command.commands["check"])
        for option in each.params
    }
    assert f"only these parts: {', '.join(PARTS)}." in str(getattr(options["parts"], "help", ""))
    assert _options.DurationType().convert(options["max_recording"].default, None, None) == MAX_RECORDING_S


def test_json_in_a_setting_is_parsed() -> None:
    tools = '[{"name": "f", "headers": {"Authorization": "Bearer canary"}}]'
    pairs = parse_pairs("--extra", [f"tools={tools}", "note={not json", "n=5", 'inline={ a = "b" }'])
    assert pairs == {"tools": json.loads(tools), "note": "{not json", "n": 5, "inline": {"a": "b"}}
    assert "canary" not in str(public_settings(pairs))


def test_a_dotted_name_is_a_path_in_the_settings() -> None:
    given = {"endpoint": {"name": "twilio", "extra": {"parameters": {"a": "1"}}}}
    named = configured(given, {"endpoint__extra": ("parameters.b=x", "parameters.c.d=2")})
    assert named.endpoint.extra == {"parameters": {"a": "1", "b": "x", "c": {"d": 2}}}
    assert given["endpoint"]["extra"] == {"parameters": {"a": "1"}}
    for wrong, words in (
        ("parameters.=x", "expected KEY=VALUE"),
        ("parameters.a.b=x", "a has another value"),
    ):
        with pytest.raises(UsageError, match=words):
            configured(given, {"endpoint__extra": (wrong,)})


def test_telephone_numbers_and_keys_stay_text() -> None:
    pairs = parse_pairs("--extra", ["to=+15551234567", "dtmf=12#", "n=-5"])
    assert pairs == {"to": "+15551234567", "dtmf": "12#", "n": -5}


def test_durations_in_flags_have_units() -> None:
    assert configured({}, {"data__max_recording": "2m"}).data.max_recording == 120
    with pytest.raises(RunFileError, match=r"^--max-recording '3h': expected 2 h or less$"):
        configured({}, {"data__max_recording": "3h"})


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
