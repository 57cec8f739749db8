"""Values that are secrets, their detected spellings, and text that is not changed."""

import base64
import html
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
        "".join(f"\\x{ord(one):02x}" for one in KEY),
        quote(quote(KEY, safe=""), safe=""),
    ],
)
def test_a_secret_is_found_in_every_encoding(spelled: str) -> None:
    hidden = knowing(KEY).text(f"so {spelled} is")
    assert "***" in hidden
    assert hidden.startswith("so ")
    assert hidden.endswith(" is")
    assert len(hidden) < len("so ... is") + 12
    assert "quiet" not in hidden


@pytest.mark.parametrize("spelled", [json.dumps(KEY)[1:-1], quote(KEY, safe=""), html.escape(KEY)])
def test_escapes_next_to_an_escaped_secret_stay(spelled: str) -> None:
    assert knowing(KEY).text(f"1+1 \\n %41 {spelled}") == "1+1 \\n %41 ***"


def test_a_secret_is_found_in_the_base64_of_urls() -> None:
    secret = "~~~quiet???>>>"
    spelled = base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")
    assert "-" in spelled
    assert "_" in spelled
    assert "***" in knowing(secret).text(spelled)


def test_a_space_in_a_secret_is_found_as_a_plus() -> None:
    assert knowing("pass word-4711").text("pass+word%2D4711") == "***"


def test_the_longest_of_several_secrets_is_found() -> None:
    assert knowing("quiet-4711", "quiet-4711-long").text("quiet-4711-long") == "***"


def test_white_space_around_a_secret_is_not_part_of_it() -> None:
    assert knowing(" quiet-4711\n").text("'quiet-4711'") == "'***'"


@pytest.mark.parametrize("text", ["sk-proj-4711aabbccdd", "Bearer  eyJ4711.aabb-ccddee=", "ws://me:quiet@"])
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    assert Redactor().text(f"'{text}h/x'").replace("h/x", "") in ("'***'", "'ws://'", "'***/x'")


@pytest.mark.parametrize("text", ["a desk-of-many-drawers-1", "sk-1", "a Bearer of news"])
def test_what_only_resembles_a_key_stays(text: str) -> None:
    assert Redactor().text(text) == text


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
        ("ws://u:4711#@HOST", "ws://HOST", "HOST"),
        ("ws://u:SECRET#HOST", "ws://u:***", "u"),
        ("ws://u:SEC/RET@[bad", "ws://[bad", "[bad"),
        ("u:SECRET@host:80/v1?key=1", "host:80/v1", "host"),
        ("ws://host:99999/v1", "ws://host:99999/v1", "host"),
        ("ws://host:0/v1", "ws://host:0/v1", "host"),
        ("", "", ""),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, shown: str, host: str) -> None:
    assert public_url(url) == shown
    assert public_url(shown) == shown
    assert host_of(url) == host


def test_a_login_and_a_query_are_learned_except_words_of_a_query() -> None:
    redactor = Redactor()
    redactor.learn_url(
        "ws://me:pass%2Fword-1@h/v1?fault=close_mid_reply&model=gpt-4711-mini&x=ab12cd34ef&y=ab%2Bcd+ef"
    )
    redactor.learn_url("ws://h/v1?token=correcthorsebattery&api-version=2026-10-01&deployment=mine-4711")
    redactor.learn_url("ws://some-plain-user:quiet-turn@h")
    redactor.learn_url("ws://u:quiet-9#pass@HOST")
    redactor.learn_url("turn:user-4711:quiet-turn@h:1")
    said = "pass/word-1 close_mid_reply gpt-4711-mini ab12cd34ef ab+cd ef user-4711 quiet-turn quiet-9#pass"
    assert redactor.text(said) == "*** close_mid_reply gpt-4711-mini *** *** *** *** ***"
    assert redactor.text("correcthorsebattery") == "***"
    redactor.learn_url("ws://host-4711.example/v1?mail=me@there.example")
    assert "***" not in redactor.text("2026-10-01 mine-4711 some-plain-user host-4711.example")
    redactor.learn_url("ws://u:quiet-4712#pass@HOST")
    assert redactor.text("unknown host quiet-4712") == "unknown host ***"
    assert "***" in redactor.text(base64.b64encode(b"user-4711:quiet-turn").decode()), "as Basic sends it"


@pytest.mark.parametrize(
    ("setting", "public"),
    [
        ({"base_url": "me:quiet-4711@h/v1"}, {"base_url": "h/v1"}),
        ({"baseURL": "me:quiet-4711@h/v1"}, {"baseURL": "h/v1"}),
        (["turn:me:quiet-4711@h:1", "stun:h"], ["turn:***@h:1", "stun:h"]),
        (["TURNS:me:quiet-4711@h:1"], ["TURNS:***@h:1"]),
        ({"model": "x?api-key=quiet-4711"}, {"model": "x?api-key=***"}),
        ({"proxy": "http://me:quiet-4711@h/?x=ab12"}, {"proxy": "http://h/?x=***"}),
        (["http://me:quiet-4711@h/?x=ab12"], ["http://h/?x=***"]),
        ({"note": "at ws://me:quiet-4711@h"}, {"note": "at ws://h"}),
        ({"authorization": "Bearer quiet-4711"}, {"authorization": "***"}),
    ],
)
def test_addresses_and_headers_in_settings_are_hidden_and_learned(setting: object, public: object) -> None:
    assert public_settings(setting) == public
    redactor = Redactor()
    redactor.learn_settings(setting)
    assert redactor.text("'quiet-4711'") == ("'***'" if "note" not in str(setting) else "'quiet-4711'")


@pytest.mark.parametrize("text", ["ws://a to me@b", '"ws://a","me@b"'])
def test_an_address_next_to_another_has_no_login(text: str) -> None:
    assert public_settings({"note": text}) == {"note": text}


def test_a_secret_left_in_json_values_is_named_by_its_path() -> None:
    redactor = knowing("quiet-4711")
    assert redactor.exposed_in({"a": [{"api_key": "x"}]}) == "a.0.api_key"
    assert redactor.exposed_in({"headers": ["x"]}) == "headers.0"
    assert redactor.exposed_in({"note": "quiet-4711"}) == "note"
    assert redactor.exposed_in({"api_key": "***", "note": "x"}) is None


def test_secrets_of_settings_are_hidden_and_learned() -> None:
    settings = {
        "tools": [{"type": "mcp", "server_url": "https://me:pw@h/x?t=1", "headers": {"X-Any": "quiet-4711"}}],
        "accessToken": "quiet-0815",
        "password": "pw",
        "passphrase": "two quiet words-1",
        "max_output_tokens": 5,
        "key_variable": "MY_KEY",
        "token": None,
    }
    assert public_settings(settings) == {
        "tools": [{"type": "mcp", "server_url": "https://h/x?t=***", "headers": "***"}],
        "accessToken": "***",
        "password": "***",
        "passphrase": "***",
        "max_output_tokens": 5,
        "key_variable": "MY_KEY",
        "token": None,
    }
    redactor = Redactor()
    redactor.learn_settings(settings)
    assert redactor.text("quiet-4711 quiet-0815, two quiet words-1") == "*** ***, ***"
    assert redactor.body({"password": "pw", "note": "pw"}) == {"password": "***", "note": "pw"}
    assert redactor.body({"password": ""}) == {"password": ""}


def test_a_key_in_the_query_of_a_model_name_is_hidden_and_learned() -> None:
    settings = {"model": "x?voice=ash-voice-1&api_key=quiet-4711", "name": "openai"}
    assert public_settings(settings) == {"model": "x?voice=ash-voice-1&api_key=***", "name": "openai"}
    redactor = Redactor()
    redactor.learn_settings(settings)
    assert redactor.text("no voice ash-voice-1, key quiet-4711") == "no voice ash-voice-1, key ***"
    redactor.learn_settings({"model": "x?api_key=two+words-4711"})
    assert redactor.text("key two words-4711") == "key ***"


def test_a_secret_in_pieces_of_one_field_is_found() -> None:
    redactor = knowing("quiet-4711")
    pieces = ["The key is qui", "et-", "4711, quiet-4711 ", "and quiet"]
    messages = [{"type": "delta", "item": [{"text": piece}], "id": 1} for piece in pieces]
    messages.insert(1, {"type": "other", "item": [{"text": "et-4711"}], "id": 1})
    found = [message["item"][0]["text"] for message in redactor.series(messages)]
    assert found == ["The key is ***", "et-4711", "", ", quiet-4711 ", "and quiet"]
    assert redactor.series(messages)[1] is messages[1]
    assert redactor.series([["qui"], ["et-4711"]]) == [["***"], [""]]
    assert redactor.series([{"a": ["so ", "qui"]}, {"a": ["et-4711"]}]) == [
        {"a": ["so ", "***"]},
        {"a": [""]},
    ]
    apart = [{"a": "qui", "b": "et-4711"}]
    assert redactor.series(apart) == apart


def test_a_secret_in_a_long_message_is_found_fast() -> None:
    redactor = knowing("quiet-4711", "quiet-4712")
    sound = "Zm9v" * 250_000
    began = time.process_time()
    assert redactor.text(sound + "quiet-4711") == sound + "***"
    assert time.process_time() - began < 0.5


def test_audio_is_not_searched_for_pieces_of_secrets() -> None:
    messages = [{"type": "delta", "audio": "Zm9v" * 300 + "quiet-"}, {"type": "delta", "audio": "4711"}]
    assert knowing("quiet-4711").series(messages) == messages


def test_a_message_keeps_its_form_and_loses_its_secrets() -> None:
    SECRETS.learn("quiet-4711")
    concealer = Concealer(None)
    assert concealer.message('{"a" :  "quiet-4711"}') == '{"a" :  "***"}'
    assert concealer.message(b'{"a": "quiet\\u002d4711"}') == b'{"a": "***"}'
    assert concealer.message('{"quiet\\u002d4711": 1}') == '{"***": 1}'
    assert concealer.message(b"\xffquiet-4711") == b"\xff***"
    assert concealer.message(b' {"a": "quiet\\u002d4711"}') == b' {"a": "***"}'
    assert concealer.message(b'["quiet\\u002d4711"]') == b'["***"]'
    assert concealer.message("no key sk-ab***cd") == "no key ***"
    assert Concealer(Secret("quiet-0815")).text("quiet-0815") == "***"


@pytest.mark.parametrize(
    "field",
    [
        *("access_token", "api_key", "authorization", "client_secret", "handle", "headers", "newHandle"),
        *("new_handle", "resume_token"),
    ],
)
def test_a_secret_field_of_a_message_is_hidden_and_learned(field: str) -> None:
    concealer = Concealer(None)
    assert concealer.text(f'{{"{field}": "quiet-4711", "n": 1}}') == f'{{"{field}":"***","n":1}}'
    assert concealer.text("quiet-4711") == "***"
    assert concealer.text(f'{{"{field}": "quiet-0815", cut off') == f'{{"{field}": "***", cut off'
    assert concealer.text(f'{{"{field}": "quiet-0815, cut off') == f'{{"{field}": "***"'


def test_numbers_of_a_message_stay_numbers() -> None:
    SECRETS.learn("12345678")
    found = Concealer(None).message('{"at":123456789,"said":"12345678"}')
    assert json.loads(found) == {"at": 123456789, "said": "***"}
    assert SECRETS.values({"at": 12345678}) == {"at": 12345678}
    assert Concealer(None).message('{"at" : 123456789}') == '{"at" : 123456789}'


def test_variables_named_as_secrets_are_learned_from_the_environment() -> None:
    redactor = Redactor()
    folders = {"PWD": "/home/quiet-4712", "OLDPWD": "/home/quiet-4713"}
    redactor.learn_environment({"MY_API_KEY": "quiet-4711", "LANG": "quiet-4714", **folders})
    others = "/home/quiet-4712 /home/quiet-4713 quiet-4714"
    assert redactor.text(f"quiet-4711 {others}") == f"*** {others}"


@pytest.mark.parametrize("text", ["***bold*** text*** here", "foo***bar"])
def test_emphasis_is_not_a_masked_key(text: str) -> None:
    assert mask_halves(text) == text


@pytest.mark.parametrize("half", ["sk-ab***cd", "***ab12", "abcd*****wxyz"])
def test_a_partly_masked_key_is_hidden(half: str) -> None:
    assert mask_halves(f"key '{half}' of ws://me:pw@h") == "key '***' of ws://h"


def test_half_a_key_in_a_long_word_is_found_fast() -> None:
    began = time.process_time()
    mask_halves("a" * 100_000 + " ***")
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "name",
    [
        *("auth_header", "authorization", "X-Bearer", "cookie.jar", "credential", "aws_credentials", "jwt_1"),
        *("passphrase", "passwd", "password2", "passwords", "pat", "private_key_pem", "pwd", "client_secret"),
        *(
            "secrets",
            "request signature",
            "apiKey",
            "KEY_2",
            "keys",
            "db_pass",
            "sig",
            "accessToken",
            "tokens",
        ),
        *("accessKeyId", "access_key_id", "api_key_id", "api-key-v2", "key_value", "Headers", "psk", "otp"),
        *("apikey", "X-APIKEY", "authtoken", "accesstokens", "secretkey", "privkey", "bearertoken"),
        *("clienttoken", "masterkey", "privatekey", "refreshtoken", "sessiontoken", "signingkey"),
    ],
)
def test_a_field_is_secret_by_its_name(name: str) -> None:
    assert public_settings({name: "value"}) == {name: "***"}
    assert public_settings({name: ["value"]}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["key_terms", "monkey", "author", "path", "signal", "key_id", "header", "v", "turnkey"]
)
def test_a_name_that_resembles_a_secrets_is_public(name: str) -> None:
    assert public_settings({name: "value"}) == {name: "value"}


@pytest.mark.parametrize("value", [5, -1, None, True, "12", ""])
def test_a_number_of_tokens_is_not_a_secret(value: object) -> None:
    assert public_settings({"max_tokens": value}) == {"max_tokens": value}


@pytest.mark.parametrize("value", [4711, "12,000"])
def test_other_values_of_a_secret_field_are_secrets(value: object) -> None:
    assert public_settings({"tokens": "12,000", "pin_key": 4711}) == {"tokens": "***", "pin_key": "***"}
