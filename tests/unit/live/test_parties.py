"""The endpoints of a conversation: order, labels and the commands that follow."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.errors import UsageError
from live_eval.live.conversation import LiveConversation
from live_eval.live.parties import Parties, Party
from live_eval.live.shared_conversation import SharedConversation
from live_eval.recording import RunReader
from live_eval.run.plan import make_live_plan
from live_eval.run.run_file import validate
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.types import TurnMode
from tests.support.live_user import RATE_HZ, Loudspeaker
from tests.unit.live.test_ballot import turn


def party(folder: Path, name: str, mode: str = "server_vad", judges: Sequence[str] = ()) -> Party:
    tables: dict[str, Any] = {"endpoint": {"name": "reference", "base_url": "ws://127.0.0.1:9/v1"}}
    plan = make_live_plan(validate({**tables, "turns": {"mode": mode}}))
    return Party(name, plan, folder / name, judges, JudgeOptions())


def test_each_endpoint_has_a_run_that_names_the_others(tmp_path: Path) -> None:
    parties = Parties([party(tmp_path, name) for name in "abc"])
    assert not parties.manual
    assert [each.label for each in parties.standings] == ["a", "b", "c"]
    with parties.conversation(Loudspeaker(), {"microphone": "m"}, device_hz=RATE_HZ) as conversation:
        assert isinstance(conversation, SharedConversation)
    for name, others in (("a", ["b", "c"]), ("b", ["a", "c"])):
        with RunReader.open(tmp_path / name) as run:
            assert run.ended
            assert run.manifest["simultaneous_with"] == others
            assert run.manifest["devices"] == {"microphone": "m"}


def test_a_single_endpoint_has_its_own_conversation(tmp_path: Path) -> None:
    with Parties([party(tmp_path, "a")]).conversation(Loudspeaker(), {}, device_hz=RATE_HZ) as conversation:
        assert isinstance(conversation, LiveConversation)
    with RunReader.open(tmp_path / "a") as run:
        assert run.ended
        assert run.manifest["simultaneous_with"] == []


def test_endpoints_with_the_same_judges_share_a_scorer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    class Scorer:
        def __init__(self, judges: list[str], options: JudgeOptions) -> None:
            self.judges = judges
            made.append(judges)

        def close(self) -> None:
            made.remove(self.judges)
            for name in "abcd":
                with RunReader.open(tmp_path / name) as run:
                    assert not run.ended, "the scorer still reads it"

    monkeypatch.setattr("live_eval.live.parties.QuickScorer", Scorer)
    all_judges: list[list[str]] = [["dnsmos"], ["dnsmos"], [], ["prosody"]]
    given = [party(tmp_path, name, judges=each) for name, each in zip("abcd", all_judges, strict=True)]
    with Parties(given).conversation(Loudspeaker(), {}, device_hz=RATE_HZ):
        assert made == [["dnsmos"], ["prosody"]]
    assert not made


def test_the_next_commands_name_the_runs_that_have_turns(tmp_path: Path) -> None:
    parties = Parties([party(tmp_path, name) for name in "abc"])
    assert parties.next_commands(Path("v.csv")) == {}
    for place in (0, 2):
        parties.standings[place].follow(turn(1))
        parties.ballot.replied(place, turn(1))
    folders = f"{tmp_path / 'a'} {tmp_path / 'c'}"
    assert parties.next_commands(Path("v.csv")) == {"differences": f"live-eval compare {folders} --common"}
    parties.ballot.vote(0)
    arena = f"live-eval arena {folders} --common --no-judge --votes v.csv"
    assert parties.next_commands(Path("v.csv"))["votes"] == arena


def test_blind_endpoints_are_shuffled_letters_in_the_order_of_the_ballot(tmp_path: Path) -> None:
    orders = set()
    for _ in range(40):
        parties = Parties([party(tmp_path, name) for name in ("x", "y")], blind=True)
        assert [each.label for each in parties.standings] == ["A", "B"]
        orders.add(tuple(each.name for each in parties.all))
        for place in (0, 1):
            parties.ballot.replied(place, turn(1))
        parties.ballot.vote(1)
        assert parties.ballot.rows()[0].winner == parties.all[1].name
    assert len(orders) == 2


def test_endpoints_that_cannot_share_a_conversation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="end turns in different ways"):
        Parties([party(tmp_path, "a"), party(tmp_path, "b", "manual")])
    with pytest.raises(UsageError, match="at most 4 endpoints, got 5"):
        Parties([party(tmp_path, name) for name in "abcde"])
    one = party(tmp_path, "a")
    manual = replace(one, plan=replace(one.plan, turn_mode=TurnMode.MANUAL))
    assert Parties([manual]).manual
