import runpy
from importlib import metadata
from pathlib import Path

import pytest

from live_eval import extras
from live_eval.extras import install_command

ROOT = Path(__file__).parents[2]


def test_a_checkout_is_installed_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = Path(extras.__file__).parents[1]
    monkeypatch.chdir(root)
    assert install_command("torch") == "pip install -e '.[torch]'"
    monkeypatch.chdir(tmp_path)
    assert install_command("torch") == f"pip install -e '{root}[torch]'"


def test_elsewhere_the_packages_of_the_extra_are_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requirements = ["click>=8", 'torch>=2.6; extra == "torch"', "ray[default]>=2.52; extra == 'ray'"]
    monkeypatch.setattr(metadata, "requires", lambda _: requirements)
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "live_eval" / "extras.py"))
    assert install_command("torch") == "pip install 'torch>=2.6'"
    assert install_command("ray") == "pip install 'ray[default]>=2.52'"


def test_uv_is_given_the_settings_of_pip() -> None:
    found = runpy.run_path(str(ROOT / "scripts/install.py"))["uv_settings"]
    assert found([]) == {}
    lines = ["global.index-url='https://index.example/simple'", "global.timeout='60'", ":env:.cert='c.pem'"]
    assert found(lines) == {"UV_DEFAULT_INDEX": "https://index.example/simple", "SSL_CERT_FILE": "c.pem"}
    capped = ["global.constraint='capped.txt'"]
    assert found(capped, ["torch"]) == {"UV_CONSTRAINT": "capped.txt"}
    assert found(capped, ["--require-hashes"]) == {}
