"""Which values are secrets, in which spellings they are found, and what stays unchanged."""

import base64
import json
import time
from urllib.parse import quote

import pytest

from live_eval.redaction import (
    SECRETS,
    Concealer,
    Redactor,
    host_of,
    mask_halves,
    public_settings,
    public_url,
)
from live_eval.types import Secret

KEY = 'sk"/quiet+4711=é'


def knowing(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.learn(Secret(secret))
    return redactor


@pytest.mark.parametrize(
    "spelled",
    [
        KEY,
        *(base64.b64encode(b"x" * before + KEY.encode() + b"yz").decode() for before in range(4)),
        base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
        base64.b64encode(f"me:{KEY}".encode()).decode(),
        quote(KEY, safe=""),
        quote(KEY).lower(),
        "".join(f"%{byte:02x}" for byte in KEY.encode()),
        json.dumps(KEY),
        json.dumps(json.dumps(KEY)),
        "".join(f"\\u{ord(one):04X}" for one in KEY),
        "".join(f"&#{ord(one)};" for one in KEY),
        "".join(f"&#x{ord(one):x};" for one in KEY),
        KEY.replace('"', "&quot;"),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
    ],
)
def test_a_secret_is_found_in_every_encoding(spelled: str) -> None:
    hidden = knowing(KEY).text(f"so {spelled} is")
    assert "***" in hidden
    assert hidden.startswith("so ")
    assert hidden.endswith(" is")
    assert len(hidden) < len("so ... is") + 12
    assert "quiet" not in hidden


@pytest.mark.parametrize("word", ["hush-7", "cat", "Anything", "reference", "placeholder"])
def test_short_secrets_and_words_are_not_searched_for(word: str) -> None:
    assert knowing(word).text(f"say {word} again") == f"say {word} again"


def test_secrets_longer_than_words_or_with_other_characters_are_searched_for() -> None:
    redactor = knowing("correcthorsebattery", "correct9", "CANARYKEY")
    assert redactor.text("correcthorsebattery, correct9, CANARYKEY") == "***, ***, ***"


@pytest.mark.parametrize(
    ("url", "shown", "host"),
    [
        ("wss://me:hush-4711@h:1/v1?a=1&b=2#x", "wss://h:1/v1?a=***&b=***", "h:1"),
        ("ws://u:SECRET#@HOST", "ws://HOST", "HOST"),
        ("ws://u:SECRET#HOST", "ws://u:***", "u"),
        ("ws://u:SEC/RET@[bad", "ws://[bad", "[bad"),
        ("u:SECRET@host:80/v1?key=1", "host:80/v1", "host"),
        ("ws://host:99999/v1", "ws://host:99999/v1", "host"),
        ("", "", ""),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, shown: str, host: str) -> None:
    assert public_url(url) == shown
    assert public_url(shown) == shown
    assert host_of(url) == host


def test_a_login_and_a_query_are_learned_except_words_of_a_query() -> None:
    redactor = Redactor()
    redactor.learn_url("ws://me:pass%2Fword-1@h/v1?fault=close_mid_reply&model=gpt-4711-mini&x=ab12cd34ef")
    redactor.learn_url("ws://u:quiet-9#pass@HOST")
    redactor.learn_url("turn:user-4711:quiet-turn@h:1")
    said = "pass/word-1 close_mid_reply gpt-4711-mini ab12cd34ef quiet-9#pass user-4711 quiet-turn"
    assert redactor.text(said) == "*** close_mid_reply gpt-4711-mini *** *** *** ***"


def test_secrets_of_settings_are_hidden_and_learned() -> None:
    settings = {
        "tools": [{"type": "mcp", "server_url": "https://me:pw@h/x?t=1", "headers": {"X-Any": "quiet-4711"}}],
        "accessToken": "quiet-0815",
        "password": "pw",
        "max_output_tokens": 5,
        "key_variable": "MY_KEY",
        "token": None,
    }
    assert public_settings(settings) == {
        "tools": [{"type": "mcp", "server_url": "https://h/x?t=***", "headers": "***"}],
        "accessToken": "***",
        "password": "***",
        "max_output_tokens": 5,
        "key_variable": "MY_KEY",
        "token": None,
    }
    redactor = Redactor()
    redactor.learn_settings(settings)
    assert redactor.text("quiet-4711 quiet-0815") == "*** ***"
    assert redactor.body({"password": "pw", "note": "pw"}) == {"password": "***", "note": "pw"}


def test_a_secret_in_pieces_of_one_field_is_found() -> None:
    redactor = knowing("quiet-4711")
    pieces = ["The key is qui", "et-", "4711, quiet-4711 ", "and quiet"]
    messages = [{"type": "delta", "item": [{"text": piece}], "id": 1} for piece in pieces]
    messages.insert(1, {"type": "other", "item": [{"text": "et-4711"}], "id": 1})
    found = [message["item"][0]["text"] for message in redactor.series(messages)]
    assert found == ["The key is ***", "et-4711", "", ", quiet-4711 ", "and quiet"]
    assert redactor.series(messages)[1] is messages[1]


def test_a_secret_in_a_long_message_is_found_fast() -> None:
    redactor = knowing("quiet-4711", "quiet-4712")
    sound = "Zm9v" * 250_000
    began = time.process_time()
    assert redactor.text(sound + "quiet-4711") == sound + "***"
    assert time.process_time() - began < 0.5


def test_numbers_of_a_message_stay_numbers() -> None:
    SECRETS.learn("12345678")
    found = Concealer(None).message('{"at":123456789,"said":"12345678"}')
    assert json.loads(found) == {"at": 123456789, "said": "***"}
    assert SECRETS.values({"at": 12345678}) == {"at": 12345678}


def test_variables_named_as_secrets_are_learned_from_the_environment() -> None:
    redactor = Redactor()
    redactor.learn_environment({"MY_API_KEY": "quiet-4711", "PWD": "/home/quiet-4712", "LANG": "quiet-4713"})
    assert redactor.text("quiet-4711 quiet-4712 quiet-4713") == "*** quiet-4712 quiet-4713"


@pytest.mark.parametrize("text", ["***bold*** text*** here", "foo***bar"])
def test_emphasis_is_not_a_masked_key(text: str) -> None:
    assert mask_halves(text) == text


@pytest.mark.parametrize(
    "name",
    [
        *("auth_header", "pat", "api-key-v2", "private_key_pem", "password2", "KEY_2"),
        *("pwd", "keys", "apiKeys", "tokens", "accessKeyId", "secrets"),
    ],
)
def test_a_secrets_name_may_continue_after_the_word(name: str) -> None:
    assert public_settings({name: "value", "max_tokens": 5, "key_terms": "a"}) == {
        name: "***",
        "max_tokens": 5,
        "key_terms": "a",
    }
    assert public_settings({name: ["value"]}) == {name: "***"}


@pytest.mark.parametrize("echo", ["{}%252F{}", r"\x{:02x}"])
def test_a_secret_encoded_twice_or_in_hexadecimal_is_found(echo: str) -> None:
    redactor = Redactor()
    redactor.learn("key/4711-abcd")
    twice = (
        echo.format("key", "4711-abcd")
        if "252F" in echo
        else "".join(echo.format(ord(c)) for c in "key/4711-abcd")
    )
    assert redactor.text(f"you sent {twice}, did you") == "you sent ***, did you"
