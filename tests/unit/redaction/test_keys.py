"""Keys from files and keyrings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import NoKeyringError

from live_eval.errors import UsageError
from live_eval.redaction import SECRETS, find_key, has_key, key_source, key_variable, recipient_in_words
from live_eval.run.run_file import validate
from live_eval.scoring.judge_runner import check_options, judge_options

KEY = "sk/can+ary=4711"


class Drawer(KeyringBackend):
    """A keyring in memory."""

    priority = 1.0
    locked = False
    why = "no backend\nwith a long explanation"

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise NoKeyringError(self.why)
        return {("live-eval/work", "openai"): KEY}.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.fixture
def drawer(monkeypatch: pytest.MonkeyPatch) -> Drawer:
    found = Drawer()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(keyring, "get_password", found.get_password)
    return found


def private(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "key"
    path.write_bytes(text.encode("latin-1"))
    path.chmod(mode)
    return f"file:{path}"


def test_a_key_in_a_private_file_is_found_and_redacted(tmp_path: Path) -> None:
    source = private(tmp_path, f"{KEY}\n")
    assert has_key(source)
    key = find_key(source)
    assert key is not None
    assert key.reveal() == KEY
    assert SECRETS.text(f"Bearer {KEY}!") == "Bearer ***!"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match=f"run chmod 600 {tmp_path}/key"):
        find_key(private(tmp_path, KEY, mode))


@pytest.mark.parametrize("text", ["", "\n", f"{KEY}\n{KEY}", f"key: {KEY}", "\xff\xfe" * 8])
def test_a_file_without_one_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="expected a single line with the key") as error:
        find_key(private(tmp_path, text))
    assert KEY not in str(error.value)


def test_a_key_in_a_linked_file_of_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private(tmp_path, KEY)
    (tmp_path / "link").symlink_to(tmp_path / "key")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert has_key("file:~/link")
    key = find_key("file:~/link")
    assert key is not None
    assert key.reveal() == KEY


def test_an_object_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        find_key(f"file:{tmp_path}/nothing")
    with pytest.raises(UsageError, match="cannot read the key"):
        find_key(f"file:{tmp_path}")
    assert not has_key(f"file:{tmp_path}/nothing")
    assert not has_key(f"file:{tmp_path}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="cannot read the key"):
        find_key(f"file:{tmp_path}/pipe")


def test_a_key_in_a_keyring(drawer: Drawer) -> None:
    assert has_key("keyring:live-eval/work/openai")
    key = find_key("keyring:live-eval/work/openai")
    assert key is not None
    assert key.reveal() == KEY
    with pytest.raises(UsageError, match="run keyring set live-eval gemini"):
        find_key("keyring:live-eval/gemini")
    drawer.locked = True
    with pytest.raises(UsageError, match=r"^cannot read the keyring: no backend$"):
        find_key("keyring:live-eval/openai")
    drawer.why = ""
    with pytest.raises(UsageError, match=r"^cannot read the keyring: NoKeyringError$"):
        find_key("keyring:live-eval/openai")


def test_a_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    assert has_key("MY_KEY")
    assert find_key("MY_KEY") is not None
    assert find_key("NO_SUCH_KEY") is None


@pytest.mark.parametrize("given", ["file:key", "keyring:openai/key", "keyring:live-eval/work/openai"])
def test_a_source_is_taken_as_it_is(given: str) -> None:
    assert key_source(given) == given


@pytest.mark.parametrize(
    "given",
    [
        *("hunter2-hunter2", "hunter2/hunter2", "file:", "keyring:", "keyring:openai"),
        *("keyring:/a", "keyring:a/", "keyring:a/b/"),
    ],
)
def test_a_key_in_place_of_its_source_is_refused_and_redacted(given: str) -> None:
    with pytest.raises(ValueError, match="expected file:PATH or keyring:SERVICE/NAME"):
        key_source(given)
    if "hunter" in given:
        assert given not in SECRETS.text(f"it is {given}")
    with pytest.raises(UsageError) as error:
        validate({"endpoint": {"key_from": "hunter2-hunter2"}})
    assert "hunter2-hunter2" not in SECRETS.text(str(error.value))


@pytest.mark.parametrize(
    "given",
    [
        "AIzaSyA-canary4711-QQQQWWWWEEEE",
        "AIzaSyAcanary4711QQQQWWWWEEEE",
        "hf_canaryCANARYcanaryCANARY",
        "canary4711canary4711",
        "sk-canary4711",
        "canary.canary.canary",
        "canary-4711",
        "4711_canary_canary",
        "my_canarycanaRy",
        "MY_CANARY4711AB",
    ],
)
def test_a_key_in_place_of_its_variable_is_refused_and_redacted(given: str) -> None:
    with pytest.raises(ValueError, match="expected the name of an environment variable"):
        key_variable(given)
    tables: list[dict[str, Any]] = [
        {"endpoint": {"key_variable": given}},
        {"judges": {"llm_key_variable": given}},
        {"judges": {"options": {"rubric.key_variable": given}}},
    ]
    for table in tables:
        with pytest.raises(UsageError, match="expected the name of an environment variable") as error:
            check_options((), judge_options(validate(table).judges))
        assert given not in str(error.value)
    assert given not in SECRETS.text(f"it is {given}")


def test_names_of_variables_are_taken_whether_or_not_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("my-canary-4711-key", KEY)
    monkeypatch.setenv("hf_canaryCANARYcanaryCANARY", KEY)
    names = (
        "OPENAI_API_KEY",
        "key",
        "MYCOMPANYSKEY",
        "mycompanyskey",
        "Mycompanyskey",
        "AZURE_KEY_2",
        "_my_key",
    )
    short = "KEY2025BERL"  # one character shorter than a key's parts
    for name in (*names, short, "my-canary-4711-key", "hf_canaryCANARYcanaryCANARY"):
        assert key_variable(name) == name


def test_the_recipient_of_a_key_is_only_its_host() -> None:
    words = recipient_in_words("OPENAI_API_KEY", "wss://user:canary4711@api.example.com/v1?key=canary4711")
    assert words == "api.example.com receives the key in OPENAI_API_KEY"
