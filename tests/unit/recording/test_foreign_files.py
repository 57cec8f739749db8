"""Files in untrusted folders are opened without following links, pipes and devices."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import write_flac
from live_eval.errors import StoreError
from live_eval.files import atomic_write, open_regular, private_file, private_opener, read_regular
from live_eval.recording import own_folder
from live_eval.recording._database import create_database, open_database
from live_eval.recording._lock import WriterLock
from tests.support.sources import parsed

ROOT = Path(__file__).parents[3]
METHODS = {"open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text"}
FUNCTIONS = {
    "np": {"fromfile", "genfromtxt", "load", "loadtxt", "memmap", "save", "savetxt", "savez"},
    "shutil": {"copy", "copy2", "copyfile", "copyfileobj", "copytree", "move", "rmtree"},
    "soundfile": {"SoundFile", "blocks", "info", "read", "write"},
    "sqlite3": {"connect"},
    "tarfile": {"TarFile"},
    "torch": {"load", "save"},
    "wave": {"Wave_read", "Wave_write"},
    "zipfile": {"ZipFile"},
}
OPENERS = METHODS.union(*FUNCTIONS.values())
CALLED = [*METHODS, *(rf"{owner}\.{name}" for owner, names in FUNCTIONS.items() for name in names)]
WORDS = re.compile(rf"\b({'|'.join(CALLED)})\b")
NO_FILES = {"self", "self._actor", "self._connection", "self._seal", "webbrowser"}
"""Objects with a method or an attribute `open` that are not files."""
ALLOWED = {
    "audio/audio_files.py _Stream": "takes a descriptor of open_regular",
    "audio/audio_files.py _opened": "names a type",
    "audio/audio_files.py _read_to_the_end": "names a type",
    "campaigns/duplex/stimuli.py _copy": "reads a recording that the user names",
    "campaigns/latency/summary.py summary_schema": "a file of the package",
    "cli/__init__.py main": "the null device",
    "cluster/nodes.py software": "files of the package",
    "export/hugging_face.py _atomic_folder": "removes a folder; rmtree follows no link",
    "files.py open_regular": "the opener for reading",
    "files.py private_opener": "the opener for writing",
    "files.py read_text": "with links=True, a file that the user names",
    "data/benchmarks/published.py published_tables": "a file of the package",
    "judges/_asking.py PromptTemplate.load": "a file of the package, or one that the user names",
    "judges/distillmos.py DistillMos.__init__": "weights, in the user's folder",
    "judges/dnsmos.py Dnsmos.__init__": "weights, in the user's folder",
    "judges/meteor.py Meteor.__init__": "removes a temporary folder of its own",
    "judges/meteor.py _Reader.open": "calls the method of its base class",
    "judges/meteor.py _has_carriage_returns": "WordNet, in the user's folder of weights",
    "judges/meteor.py _plain_copy": "copies WordNet to a new temporary folder",
    "judges/networks/_emotion2vec.py _text": "weights, in the user's folder",
    "judges/networks/_torch.py read_tensors": "weights, in the user's folder",
    "judges/nisqa.py Nisqa.__init__": "weights, in the user's folder",
    "judges/text/_voicebench.py _tables": "a file of the package",
    "pytest_plugin/endpoint_tester.py EndpointTester.play": "in a new temporary folder",
    "recording/_database.py _connected": "SQLite opens by path; own_file has checked every file",
    "recording/_database.py is_local_disk": "the kernel's table of mounts",
    "recording/_database.py sync_folder": "opens a folder",
    "recording/_files.py read_sound": "takes a descriptor of open_regular",
    "recording/schema.py column_types": "a database in memory",
    "reference/server/process.py ReferenceProcess._failure": "the log that _open_log opened",
    "reference/truth.py TruthFile.__init__": "a file that the user names",
    "reference/truth.py read_truth": "a file that the user names",
    "run/presets/__init__.py read_preset": "a file of the package",
    "run/prompts/__init__.py _text": "a file of the package",
    "run/prompts/__init__.py load_prompt": "a file of the package, or one that the user names",
    "run/run_file.py located": "a file that the user names",
    "run/run_file.py read_run_file": "a file that the user names",
    "run/run_file.py validate": "a file that the user names",
    "run/stop_signals.py _discard": "the null device",
    "speech/boundaries/_cache.py BoundaryCache.put": "in the user's cache folder, a name for each process",
    "studio/front_end.py _page": "a file of the package",
    "studio/report_pages.py _duplex_of": "a page just written to a temporary folder of the studio",
    "web/__init__.py _module": "a file of the package",
    "weights/fetching.py Download._receive": "in the user's folder of weights",
}
"""Functions that may open files without `live_eval.files`, with reasons."""


def opened_in(tree: ast.AST) -> list[str]:
    """Return each function (``Class.function``) of a module that opens a file directly.

    This excludes files from `atomic_write`, calls with `private_opener`, and data in memory.
    """

    found: list[str] = []  # collected in a list, because nested generators are slow in deep trees

    def visit(node: ast.AST, name: str, safe: set[str]) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name, safe = f"{name}.{node.name}".lstrip("."), {*safe, *safe_in(node)}
        match node:
            case ast.Call(func=called, args=[first, *_], keywords=options) if opens(called) and (
                ast.unparse(first) in safe
                or ast.unparse(first).startswith("io.BytesIO(")
                or any(ast.unparse(option) == "opener=private_opener" for option in options)
            ):
                return
            case ast.Name(id="open", ctx=ast.Load()):
                found.append(name)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner in FUNCTIONS:
                if attribute in FUNCTIONS[owner]:
                    found.append(name)
            case ast.Attribute(value=owner, attr=attribute) if attribute in METHODS:
                words = ast.unparse(owner)
                if words not in NO_FILES | safe and (words == "Path" or not words[0].isupper()):
                    found.append(name)
        for child in ast.iter_child_nodes(node):
            visit(child, name, safe)

    visit(tree, "", set())
    return found


def opens(called: ast.expr) -> bool:
    """Return whether a call of this expression may open a file, according to its name."""
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in OPENERS
    return False


def safe_in(function: ast.AST) -> Iterator[str]:
    """Yield the names of a function's temporary files of `atomic_write`, and of its buffers in memory."""
    for node in ast.walk(function):
        match node:
            case ast.withitem(
                context_expr=ast.Call(func=ast.Name(id="atomic_write")), optional_vars=ast.Name(id=name)
            ):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=made)) if (
                ast.unparse(made) == "io.BytesIO"
            ):
                yield name


def test_no_other_function_opens_files_by_itself() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()} {name}".strip().removeprefix("live_eval/")
        for package in ("live_eval", "clients", "judges")
        for path in (ROOT / package).rglob("*.py")
        if WORDS.search(path.read_text())  # walking every file's syntax tree takes seconds
        for name in opened_in(parsed(path))
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "source",
    [
        "def f(p): open(p)",
        "def f(p): p.open()",
        "def f(s): s.path.open('rb')",
        "def f(m, p): m(Path.read_bytes, p)",
        "def f(m, p): m(p.read_text)",
        "def f(p): soundfile.write(p, x, 1)",
        "def f(p): shutil.copyfile(p, q)",
        "def f(p): np.load(p)",
        "def f(p): sqlite3.connect(p)",
    ],
)
def test_a_function_that_opens_a_file_is_found(source: str) -> None:
    assert opened_in(ast.parse(source)) == ["f"]


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A user's file outside the folder."""
    path = tmp_path / "diary"
    path.write_text("dear diary")
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("kind", "message"),
    [("pipe", "a pipe"), ("folder", "a folder"), ("link", "a link"), ("device", "a device")],
)
def test_only_regular_files_are_opened(tmp_path: Path, diary: Path, kind: str, message: str) -> None:
    path = tmp_path / "file"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(diary)
        case "device":
            path = Path("/dev/zero")
    with pytest.raises(OSError, match=f"expected a file, found {message}"):
        open_regular(path)
    if kind == "link":
        with open_regular(path, links=True) as file:
            assert file.read() == b"dear diary"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_a_pipe_is_not_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audio")
    with pytest.raises(StoreError, match="expected a folder, found a pipe"):
        own_folder(tmp_path, tmp_path / "audio")


def test_reading_stops_at_the_allowed_size(diary: Path) -> None:
    assert read_regular(diary, 10) == b"dear diary"
    with pytest.raises(OSError, match="larger than the limit of 9 bytes"):
        read_regular(diary, 9)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["link", "pipe", "broken link"])
@pytest.mark.parametrize("name", ["file", "file.part"])
def test_a_link_at_the_target_of_a_write_is_replaced(
    tmp_path: Path, diary: Path, kind: str, name: str
) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    match kind:
        case "link":
            (folder / name).symlink_to(diary)
        case "pipe":
            os.mkfifo(folder / name)
        case "broken link":
            (folder / name).symlink_to(tmp_path / "new")
    with atomic_write(folder / "file") as part:
        part.write_text("words")
    assert (folder / "file").read_text() == "words"
    assert not (folder / "file").is_symlink()
    assert diary.read_text() == "dear diary"
    assert sorted(path.name for path in tmp_path.rglob("*") if not path.is_dir()) == ["diary", "file"]


@pytest.mark.parametrize("name", ["reply.flac", "reply.flac.part"])
def test_a_recording_is_not_written_through_a_link(tmp_path: Path, diary: Path, name: str) -> None:
    before = diary.read_bytes()
    (tmp_path / name).symlink_to(diary)
    write_flac(tmp_path / "reply.flac", np.zeros(160, np.int16), 16_000)
    assert diary.read_bytes() == before
    assert not (tmp_path / "reply.flac").is_symlink()


@pytest.mark.skipif(not hasattr(os, "link"), reason="needs hard links")
@pytest.mark.parametrize("mode", ["w", "a", "r+"])
def test_a_private_file_is_not_opened_through_a_hard_link(tmp_path: Path, diary: Path, mode: str) -> None:
    (tmp_path / "log").hardlink_to(diary)
    with pytest.raises(OSError, match="found a hard link"):
        open(tmp_path / "log", mode, opener=private_opener).close()
    assert diary.read_text() == "dear diary"


@pytest.mark.skipif(not hasattr(os, "link"), reason="needs hard links")
def test_a_lock_is_not_written_through_a_hard_link(tmp_path: Path, diary: Path) -> None:
    (tmp_path / "lock").hardlink_to(diary)
    WriterLock(tmp_path / "lock").release()
    assert diary.read_text() == "dear diary"


@pytest.mark.skipif(not hasattr(os, "link"), reason="needs hard links")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_database_is_not_written_through_a_hard_link(tmp_path: Path, diary: Path, suffix: str) -> None:
    path = tmp_path / "run.sqlite"
    create_database(path, ("CREATE TABLE run (id INTEGER)",), 1).close()
    outside = path.rename(tmp_path / "other.sqlite") if not suffix else diary
    Path(f"{path}{suffix}").hardlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(StoreError, match="found a hard link"):
        open_database(path, 1)
    assert outside.read_bytes() == before


def test_a_private_file_is_not_opened_through_a_link(tmp_path: Path, diary: Path) -> None:
    (tmp_path / "log").symlink_to(diary)
    with pytest.raises(OSError, match="log"):
        private_file(tmp_path / "log")
