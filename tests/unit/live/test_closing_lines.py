"""The lines at the end of a conversation with one endpoint."""

from live_eval.live.closing_lines import ClosingLines
from live_eval.live.lines import Lines
from live_eval.live.updates import EchoDetected, QuickScores, State, StateChanged
from tests.unit.live.test_ballot import turn


def test_the_latency_and_the_scores_of_all_turns_are_summed_up() -> None:
    written: list[str] = []
    closing = ClosingLines().before(Lines(written.append))
    closing.show(StateChanged(State.TALKING))
    assert written == ["ready: speak"]
    assert closing.lines == []
    for update in (turn(1), turn(2), turn(3, fails=True)):
        closing.show(update)
    for number, mos, emotion in ((1, 3.0, "happy, 91 %"), (1, 3.5, "happy, 91 %"), (2, 4.5, "sad, 52 %")):
        scores: dict[str, float | str] = {"dnsmos.p808": mos, "emoalign:speaker": emotion}
        closing.show(QuickScores(f"turn-{number:04}", scores, number=number))
    assert closing.lines[:2] == [
        "3 turns, 1 failed",
        "voice to voice, median (quartiles, turns): 580 ms (2)",
    ]
    assert "DNSMOS: 4 MOS (mean of 2 turns)" in closing.lines
    assert any(line.endswith("happy 1×, sad 1×") for line in closing.lines)
    assert "echo" not in closing.lines[-1]
    closing.show(EchoDetected(120.0, 0.5))
    assert "echo" in closing.lines[-1]
