import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from live_eval.cli.endpoint import command
from live_eval.errors import UsageError
from live_eval.reference.emulation import emulated_clients
from live_eval.reference.faults.catalogue import FAULTS, MOMENT, FaultLayer, FaultName, Moment
from live_eval.reference.faults.fault_script import NO_FAULTS, FaultSchedule, FaultScript, parse_faults
from live_eval.reference.faults.injection import DeltaFaults
from live_eval.run.retries import retry_of


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("silent", "silent"),
        ("reset:1.2s", "reset:1200ms"),
        ("reset = 0.5 s", "reset:500ms"),
        ("reset", "reset:reply"),
        ("reset:accept@first=2", "reset:accept@first=2"),
        ("close", "close:1011"),
        ("close:1006@speech", "close:1006@speech"),
        ("close:4000@0.5s@turn=2", "close:4000@500ms@turn=2"),
        ("stall", "stall"),
        ("stall:500ms", "stall:500ms"),
        ("huge:1.5MB", "huge:1500000B"),
        ("skew", "skew:10%"),
        ("status:503@share=30%", "status:503@share=30%"),
        ("tls:alert@every=3", "tls:alert@every=3"),
        ("malformed, unknown_event", "malformed,unknown_event"),
        ("none", ""),
        ("", ""),
    ],
)
def test_a_script_has_one_canonical_form(given: str, canonical: str) -> None:
    script = parse_faults(given)
    assert str(script) == canonical
    assert parse_faults(str(script)) == script


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing", "unknown name 'nothing'; expected one of refuse, slow_accept"),
        ("silent:2s", "expected no value"),
        ("close:", "expected 1 to 4999, got ''"),
        ("close:5000", "expected 1 to 4999, got '5000'"),
        ("close:0", "expected 1 to 4999"),
        ("close:1000.5", "expected 1 to 4999"),
        ("slow_accept:2", "expected 0ms to 3600000ms, got '2'"),
        ("slow_accept:3601s", "expected 0ms to 3600000ms"),
        ("huge:1GB", "expected 0B to 200000000B"),
        ("huge:201MB", "expected 0B to 200000000B"),
        ("skew:101%", "expected 0% to 100%"),
        ("tls:expired", "untrusted|alert|plain|reset, got 'expired'"),
        ("reset:never", "expected accept|request|open|speech|reply|0ms to 3600000ms"),
        ("close@request", "expected open|speech|reply|0ms to"),
        ("silent@open", "expected turn=N, first=N, every=N or share=P% after '@', got 'open'"),
        ("silent@first=0", "expected first=1 to 999999999, got '0'"),
        ("silent@share=3", "expected share=0% to 100%"),
        ("silent,silent", "duplicate fault silent"),
    ],
)
def test_an_invalid_script_is_refused_with_the_allowed_values(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text)
    assert told in str(caught.value)


@given(st.text(alphabet="aceklmoprstu:@=%.,0123456789 sNB", max_size=30))
def test_any_text_is_a_script_or_a_usage_error(text: str) -> None:
    try:
        script = parse_faults(text)
    except UsageError:
        return
    assert parse_faults(str(script)) == script


def test_every_fault_can_be_written_with_only_its_name() -> None:
    for name in FaultName:
        (fault,) = parse_faults(name.value)
        assert fault.name is name
        value = FAULTS[name].value
        assert (fault.value is None) == (value is None or value.default is None or value is MOMENT)


def test_the_moment_determines_the_layer_of_a_fault() -> None:
    layers = [fault.layer for fault in parse_faults("reset:accept")]
    layers += [fault.layer for fault in parse_faults("reset:request")]
    layers += [fault.layer for fault in parse_faults("reset:speech")]
    assert layers == [FaultLayer.ACCEPT, FaultLayer.REQUEST, FaultLayer.SESSION]


def test_faults_are_selected_by_moment_time_and_reply() -> None:
    script = parse_faults("close@2s,malformed@1s,unknown_event@open,error_event,silent@turn=2")
    assert [fault.name for fault in script.timed()] == [FaultName.MALFORMED, FaultName.CLOSE]
    assert [fault.name for fault in script.at(Moment.OPEN)] == [FaultName.UNKNOWN_EVENT]
    assert [fault.name for fault in script.at(Moment.REPLY)] == [FaultName.ERROR_EVENT]
    assert not script.in_reply(1).has(FaultName.SILENT)
    assert script.in_reply(2).has(FaultName.SILENT)


def struck(text: str, sessions: int, seed: int = 0) -> list[int]:
    schedule, script = FaultSchedule(), parse_faults(text, seed)
    return [number for number in range(1, sessions + 1) if schedule.of_session(script)]


def test_a_schedule_strikes_the_scripted_sessions() -> None:
    assert struck("silent", 3) == [1, 2, 3]
    assert struck("silent@first=2", 5) == [1, 2]
    assert struck("silent@every=3", 7) == [3, 6]
    assert struck("silent@every=2@first=4", 8) == [2, 4]


def test_a_share_of_sessions_is_drawn_with_the_seed() -> None:
    drawn = struck("silent@share=30%", 1_000, seed=7)
    assert drawn == struck("silent@share=30%", 1_000, seed=7)
    assert drawn != struck("silent@share=30%", 1_000, seed=8)
    assert 250 < len(drawn) < 350


def test_connections_and_sessions_are_counted_separately() -> None:
    schedule, script = FaultSchedule(), parse_faults("reset:accept@first=1,silent@first=1")
    assert [fault.name for fault in schedule.of_connection(script)] == [FaultName.RESET]
    assert not schedule.of_connection(script)
    assert [fault.name for fault in schedule.of_session(script)] == [FaultName.SILENT]


def passed(script: FaultScript, deltas: Sequence[int]) -> list[int]:
    faults: DeltaFaults[int] = DeltaFaults(script)
    return [each for delta in deltas for each in faults.push([delta])] + faults.flush()


def test_deltas_are_duplicated_lost_and_reordered() -> None:
    deltas = list(range(1, 8))
    assert passed(NO_FAULTS, deltas) == deltas
    assert passed(parse_faults("duplicate:3"), deltas) == [1, 2, 3, 3, 4, 5, 6, 6, 7]
    assert passed(parse_faults("missing:3"), deltas) == [1, 2, 4, 5, 7]
    assert passed(parse_faults("reorder:3"), deltas) == [1, 2, 4, 3, 5, 7, 6]
    assert passed(parse_faults("reorder:7"), deltas) == deltas


def test_only_the_selected_reply_is_affected() -> None:
    faults: DeltaFaults[int] = DeltaFaults(parse_faults("missing:1@turn=2"))
    assert [faults.push([turn], turn) for turn in (1, 2, 3)] == [[1], [], [3]]


def test_the_list_of_faults_is_complete_and_has_failure_kinds() -> None:
    result = CliRunner().invoke(command, ["--list-faults", "--json"])
    listed = json.loads(result.output)
    assert [each["name"] for each in listed] == [name.value for name in FaultName]
    unmeasured = {"twilio"}
    dialects = set(emulated_clients()) - {"reference"} - unmeasured
    assert {dialect for each in listed for dialect in each["dialects"]} == dialects
    for each in listed:
        assert each["help"]
        assert set(each["kinds"]) == set(each["dialects"])
    for what in FAULTS.values():
        for dialect in what.dialects:
            kind = what.expected(dialect)
            assert kind is None or retry_of(kind)
