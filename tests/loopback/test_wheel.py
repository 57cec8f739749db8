"""The installed package: the sdist and the wheel are complete and contain nothing else."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from live_eval.recording import RunReader

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ("live_eval", "clients", "judges")
NEEDED = (*PACKAGED, "pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def build(kind: str, source: Path, out: Path) -> Path:
    subprocess.run([sys.executable, "-c", BUILD, f"build_{kind}", str(out)], cwd=source, check=True)
    (built,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def package_files(folder: Path) -> set[str]:
    """Return the paths of a source tree's package, through the links to `clients` and `judges`."""
    return {
        str(Path(place, name).relative_to(folder))
        for place, _, names in os.walk(folder / "live_eval", followlinks=True)
        for name in names
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree with a module of tests in it, because builds write into their source."""
    copy = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, copy / name)
    (copy / "tests").mkdir()
    (copy / "tests" / "test_nothing.py").touch()
    return copy


@pytest.fixture(scope="module")
def sdist(source: Path) -> Path:
    return build("sdist", source, source / "dist")


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel, built from the unpacked sdist."""
    with tarfile.open(sdist) as archive:
        archive.extractall(sdist.parent, filter="data")
    return build("wheel", sdist.with_name(sdist.name.removesuffix(".tar.gz")), sdist.parent)


@pytest.mark.slow
def test_the_wheel_contains_exactly_the_package(source: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == package_files(source)
    assert {Path(name).suffix for name in names} >= {".py", ".typed", ".flac", ".html", ".txt"}


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, a foreign package named `clients` and the packages of this environment.

    Returns:
        Its folder of scripts.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    scripts, libraries = (
        Path(sysconfig.get_path(name, "venv", {"base": str(folder), "platbase": str(folder)}))
        for name in ("scripts", "purelib")
    )
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    (libraries / "clients").mkdir()
    (libraries / "clients" / "__init__.py").write_text('OWNER = "somebody else"\n')
    # A path in a .pth file adds the packages there, but not the editable live-eval among them.
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return scripts


@pytest.mark.slow
def test_an_installed_wheel_runs_next_to_a_foreign_package_named_clients(
    environment: Path, tmp_path: Path
) -> None:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    show = "import clients, live_eval.clients; print(clients.OWNER, live_eval.clients.__file__)"
    imported = subprocess.run(
        [environment / "python", "-c", show], cwd=tmp_path, env=outside, capture_output=True, text=True
    )
    assert imported.stdout.startswith(f"somebody else {environment.parent}"), imported.stderr
    run = "run --endpoint reference --data sample --limit 1 --word-times off --judges bleu --out first"
    done = subprocess.run(
        [environment / "live-eval", *run.split()], cwd=tmp_path, env=outside, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with RunReader.open(tmp_path / "first") as kept:
        (turn,) = kept.turns()
    assert turn.failure is None
    assert (tmp_path / "first" / "report.html").exists()
