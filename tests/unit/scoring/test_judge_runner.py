"""Judge runners: the user's options, and the resulting versions."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval import registry
from live_eval.errors import UsageError
from live_eval.judging import JudgeKind, JudgeSpec, Need, OptionSpec, OutputSpec
from live_eval.run.run_file import JudgesTable
from live_eval.scoring.judge_runner import (
    JudgeOptions,
    check_named,
    check_options,
    judge_options,
    load_judge_runner,
    missing_requirements,
    option_values,
    scoring_version,
    unable_judges,
)
from live_eval.scoring.llm import LlmOptions
from live_eval.weights import FOLDER_VARIABLE, WeightsFile, WeightsSpec, add_weights

PINNED = WeightsSpec(
    name="pinned",
    title="",
    files=(
        WeightsFile(
            name="w",
            url="",
            sha256="3fab5c181bd28a09b64397df76ae2bfaf1eac182979b5fdb7a342858004f36af",  # of b"pinned"
        ),
    ),
    licence="",
    source="",
    megabytes=1,
)
LOOSE = replace(PINNED, name="loose", files=(WeightsFile(name="w", url=""),))


class Made:
    """A judge that records its constructor arguments."""

    def __init__(self, **arguments: str) -> None:
        self.arguments = arguments

    def score(self, batch: Any) -> list[Any]:
        raise AssertionError(self.arguments)


LOCAL = JudgeSpec(
    name="toy",
    version="1",
    title="a toy",
    kind=JudgeKind.LOCAL,
    implementation=f"{__name__}:Made",
    outputs=(OutputSpec(name="", title="toy"),),
    needs=frozenset({Need.REPLY_TEXT}),
    options=(
        OptionSpec(name="how", help="", default="plain", choices=("plain", "fancy")),
        OptionSpec(name="prompt", help="", is_file=True),
        OptionSpec(name="weights", help="", default="loose", weights=(PINNED, LOOSE)),
    ),
)
ASKING = replace(LOCAL, kind=JudgeKind.LLM, model="gpt-4o", key_variable="TOY_KEY", options=())


def choosing(**choices: str) -> JudgeOptions:
    return JudgeOptions(choices={"toy": choices})


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))
    monkeypatch.setattr(registry, "judge", lambda _: LOCAL)
    return tmp_path


def test_omitted_options_have_their_defaults() -> None:
    assert option_values(LOCAL, JudgeOptions()) == {"how": "plain", "prompt": "", "weights": "loose"}
    assert option_values(LOCAL, choosing(how="fancy"))["how"] == "fancy"


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ({"hwo": "fancy"}, r"'toy' has no option 'hwo' \(did you mean how\?\); expected one of how, "),
        ({"how": "odd"}, r"toy\.how = 'odd': expected one of plain, fancy"),
        ({"model": "mine"}, "no option 'model'"),
    ],
)
def test_invalid_options_are_refused(choices: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_options([], choosing(**choices))


def test_a_judge_is_constructed_with_its_options_and_device() -> None:
    spec = replace(LOCAL, on_device=True)
    options = JudgeOptions(device="cuda", choices={"toy": {"how": "fancy"}})
    with ExitStack() as stack:
        [judgement] = load_judge_runner(spec, options, stack).judge([None])  # type: ignore[list-item]  # not looked at
    assert "'device': 'cuda'" in str(judgement)
    assert "'how': 'fancy'" in str(judgement)


def test_everything_that_makes_a_different_judge_is_in_the_version(weights: Path) -> None:
    assert scoring_version(LOCAL, JudgeOptions()) == "1", "the loose weights are not here yet"
    assert scoring_version(LOCAL, choosing(how="fancy")) == "1+how=fancy"
    prompt = weights / "prompt.txt"
    prompt.write_text("one")
    first = scoring_version(LOCAL, choosing(prompt=str(prompt)))
    prompt.write_text("another")
    other = scoring_version(LOCAL, choosing(prompt=str(prompt)))
    assert first.startswith("1+prompt=@")
    assert first != other


def test_weights_without_a_pinned_hash_are_in_the_version(weights: Path) -> None:
    file = weights / "w"
    file.write_bytes(b"pinned")
    digest = PINNED.files[0].sha256
    assert digest is not None
    add_weights(LOOSE, file)
    assert scoring_version(LOCAL, JudgeOptions()) == f"1+weights=loose@{digest[:12]}"
    assert scoring_version(LOCAL, choosing(weights="pinned")) == "1+weights=pinned"
    assert scoring_version(LOCAL, choosing(weights=str(file))) == f"1+weights=@{digest[:12]}"
    pinned = replace(LOCAL, options=(replace(LOCAL.options[2], default="pinned"),))
    assert scoring_version(pinned, JudgeOptions()) == "1"


def test_another_model_is_another_version_of_an_llm_judge() -> None:
    assert scoring_version(ASKING, JudgeOptions()) == "1"
    assert scoring_version(ASKING, JudgeOptions(llm=LlmOptions(model="m"))) == "1+m"
    assert scoring_version(LOCAL, JudgeOptions(llm=LlmOptions(model="m"))) == "1"
    assert scoring_version(ASKING, choosing(model="mine")) == "1+mine", "for this judge alone"


def test_one_judge_may_ask_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOY_KEY", raising=False)
    everywhere = JudgeOptions(llm=LlmOptions(preset="gemini"))
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    assert "GEMINI_API_KEY" in (missing_requirements(ASKING, everywhere) or "")
    here = replace(everywhere, choices={"toy": {"base_url": "http://127.0.0.1:1/v1"}})
    assert missing_requirements(ASKING, here) is None, "a custom address needs no key unless one is named"


def test_run_file_options_may_be_tables_or_dotted_keys() -> None:
    table = JudgesTable.model_validate(
        {
            "options": {"toy": {"how": "fancy", "loud": True}, "other.layer": 6},
            "samples": 3,
            "prices": {"m": {"input": 1, "output": 2}, "gpt-4o": "2.5,10"},
        }
    )
    options = judge_options(table)
    assert options.choices == {"toy": {"how": "fancy", "loud": "yes"}, "other": {"layer": "6"}}
    assert options.llm.samples == 3
    assert options.llm.prices["m"].output == 2
    assert (options.llm.prices["gpt-4o"].input, options.llm.prices["gpt-4o"].output) == (2.5, 10)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"options": {"how": "x"}}, "expected JUDGE.OPTION"),
        ({"prices": {"m": {"input": 1}}}, "prices m: missing output; expected US dollars"),
        ({"prices": {"m": {"input": 1, "outptu": 1}}}, "prices m: expected one of input, output.*'outptu'"),
        ({"prices": {"m": {"input": 1, "output": -1}}}, "prices m: output: expected US dollars"),
        ({"llm": "nobody"}, "unknown LLM service 'nobody'"),
    ],
)
def test_invalid_run_file_options_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        judge_options(JudgesTable.model_validate(values))


def test_a_cost_limit_needs_a_price_before_any_call() -> None:
    with pytest.raises(UsageError, match="gpt-4o"):
        check_options([ASKING], JudgeOptions(llm=LlmOptions(max_cost=1.0)))


def test_a_stopped_model_server_on_this_machine_is_found_before_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server elsewhere is not contacted before its first call."""

    def refused(address: tuple[str, int], **_: object) -> None:
        assert address == ("127.0.0.1", 8000)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refused)
    here, elsewhere = (
        JudgeOptions(llm=LlmOptions(base_url=f"http://{host}/v1", model="m"))
        for host in ("127.0.0.1:8000", "judge.example:8000")
    )
    with pytest.raises(UsageError, match=r"toy: a server at 127.0.0.1:8000 \(Connection refused\)"):
        check_named([ASKING], here)
    check_named([ASKING], elsewhere)
    assert unable_judges([ASKING], here) == {}


def test_specifications_can_be_members_of_a_set() -> None:
    option = OptionSpec(name="hears", help="", default="no", spares={"no": frozenset({Need.SPEAKER_AUDIO})})
    spec = replace(ASKING, options=(option,))
    assert len({ASKING, spec, replace(spec)}) == 2
