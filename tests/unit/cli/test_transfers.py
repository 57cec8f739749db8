import pytest

from live_eval.cli._transfers import transfer_bars


def test_files_are_shown_while_they_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    with transfer_bars() as progress:
        for name in ("[a].bin", "b.bin"):
            progress(name, 0, None)
            progress(name, 5, 10)
            progress(name, 10, 10)
    assert capsys.readouterr().out == ""
