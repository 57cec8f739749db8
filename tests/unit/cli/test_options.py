import os
from pathlib import Path

import pytest

from live_eval.cli._options import RUN
from live_eval.errors import UsageError
from live_eval.recording import RUN_FILE


def test_the_newest_runs_have_short_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(["b", "a", "c"]):
        store = tmp_path / "recordings" / name / RUN_FILE
        store.parent.mkdir(parents=True)
        store.touch()
        os.utime(store, (1_000 - age, 1_000 - age))
    (tmp_path / "recordings" / "c" / "report.html").touch()  # a newer report does not count
    assert [RUN.convert(name, None, None) for name in ("latest", "@1", "@3")] == [
        Path("recordings", name) for name in ("b", "b", "c")
    ]
    with pytest.raises(UsageError, match="@4: expected a run in recordings/, which has 3"):
        RUN.convert("@4", None, None)
    (tmp_path / "latest").mkdir()
    assert RUN.convert("latest", None, None) == Path("latest")
