"""Rules for every module: exported names, cheap plugin specifications, documented commands."""

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import click
import pytest

import live_eval
from live_eval.cli import COMMANDS, cli
from live_eval.errors import FailureKind, PluginError
from live_eval.reference import REFERENCE
from live_eval.registry import CLIENTS, JUDGES, client, find_plugins
from live_eval.run.run_file import validate
from tests.support.plugin_flags import plugin_flags
from tests.support.sources import nodes

ROOT = Path(__file__).resolve().parents[2]


def importable(name: str) -> list[ModuleType]:
    """Return a list with the module; it is empty if the module's packages need another Python version."""
    try:
        return [importlib.import_module(name)]
    except PluginError:
        return []


def test_exported_names_exist_and_are_listed_once() -> None:
    modules = [
        module
        for found in pkgutil.walk_packages(live_eval.__path__, "live_eval.")
        if found.name != "live_eval.__main__"
        for module in importable(found.name)
    ]
    exported = [(module, name) for module in modules for name in getattr(module, "__all__", ())]
    assert [name for name, times in Counter(exported).items() if times > 1] == []  # ruff sorts them
    assert [(module.__name__, name) for module, name in exported if not hasattr(module, name)] == []


SOURCES = [
    Path(place, name)
    for place, _, names in os.walk(ROOT / "live_eval", followlinks=True)
    for name in names
    if name.endswith(".py")
]


def test_modules_have_at_most_600_lines() -> None:
    long = {path: count for path in SOURCES if (count := len(path.read_text("utf-8").splitlines())) > 600}
    assert long == {}


def test_the_root_contains_at_most_12_modules() -> None:
    modules = [path.name for path in (ROOT / "live_eval").glob("*.py") if not path.name.startswith("__")]
    assert len(modules) <= 12, sorted(modules)


def test_no_two_public_classes_share_a_name() -> None:
    count = Counter(
        name
        for path in SOURCES
        for name in re.findall(r"^ *class ([A-Za-z]\w*)", path.read_text("utf-8"), re.MULTILINE)
    )
    assert [name for name, times in count.items() if times > 1] == []


HEAVY = {
    "aiohttp",
    "aiortc",
    "av",
    "faster_whisper",
    "hibari",
    "jinja2",
    "librosa",
    "nltk",
    "numpy",
    "onnxruntime",
    "openai",
    "pydantic",
    "ray",
    "rich",
    "scipy",
    "sounddevice",
    "soundfile",
    "soxr",
    "torch",
    "websockets",
}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import live_eval.cli; live_eval.cli.main(['--help'])", set()),
        ("import live_eval.pytest_plugin.plugin", set()),
        ("import live_eval.clients.specs, live_eval.judges.specs", {"numpy", "soundfile", "soxr"}),
    ],
)
def test_light_modules_load_nothing_heavy(statement: str, allowed: set[str]) -> None:
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit: pass\nprint('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.rpartition("loaded ")[2].split()
    assert set(loaded) & HEAVY <= allowed


def test_help_loads_nothing_heavy() -> None:
    """Without these packages, each command's help takes at most six times as long as an empty Python."""
    code = f"""
import contextlib, io, sys
import click
from live_eval.cli import cli

def helped(group, path):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            cli([*path, name, "--help"])
        if heavy := sorted({HEAVY | {"asyncio", "multiprocessing"}} & set(sys.modules)):
            sys.exit(f"live-eval {{' '.join([*path, name])}} --help imports {{', '.join(heavy)}}")
        if isinstance(command, click.Group):
            helped(command, [*path, name])

helped(cli, [])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def documentation() -> str:
    return "\n".join(path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_documented_and_helps(name: str) -> None:
    assert f"live-eval {name}" in documentation()
    with cli.make_context("live-eval", [name, "--help"], resilient_parsing=True) as context:
        command = cli.get_command(context, name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == COMMANDS[name].rstrip(".") or (
        command.get_short_help_str(limit=200) == COMMANDS[name]
    )


def test_every_documented_command_exists() -> None:
    mentioned = set(re.findall(r"live-eval ([a-z][a-z-]+)", documentation()))
    assert mentioned <= set(COMMANDS), mentioned - set(COMMANDS)


def options_of(command: click.Command) -> set[str]:
    """Yield the options of a command and its subcommands."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return own.union({"--help", "--help-all"}, *(options_of(each) for each in below))


def test_every_documented_option_exists() -> None:
    options = {
        name: options_of(command)
        for name in COMMANDS
        if (command := cli.get_command(click.Context(cli), name)) is not None
    }
    told = re.findall(r"live-eval ([a-z][a-z-]+)([^`\n#|]*)", documentation())
    absent = [
        (name, option)
        for name, rest in told
        for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)
        if option not in options[name]
    ]
    assert absent == []
    alone = set(re.findall(r"`(--?[a-z][a-z-]*)", documentation()))
    assert alone <= plugin_flags().union(*options.values())


def test_every_kind_of_failure_is_documented() -> None:
    text = documentation()
    assert [kind.value for kind in FailureKind if f"`{kind.value}`" not in text] == []


PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("examples/*/README.md"),
]


def test_links_between_pages_are_valid() -> None:
    links = [
        (page, link)
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    ]
    assert [(page, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_documented_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", documentation(), re.MULTILINE)) <= targets


def test_every_documented_extra_and_variable_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    installed = re.findall(r"pip install -e '\.\[([a-z,]+)\]'", documentation())
    assert {extra for each in installed for extra in each.split(",")} <= set(extras)
    sources = "".join(path.read_text("utf-8") for path in SOURCES)
    variables = set(re.findall(r"\bLIVE_EVAL_[A-Z_]+", documentation()))
    assert [name for name in variables if name not in sources] == []


NAMESAKES = {
    CLIENTS: {
        ("live_eval/data/benchmarks/catalogue.py", REFERENCE),  # a column of a table
        ("live_eval/data/check.py", REFERENCE),  # the role of a recording
        ("live_eval/data/manifest.py", REFERENCE),  # a column of a manifest
        ("live_eval/studio/listen.py", REFERENCE),  # the role of a recording
        ("live_eval/scoring/llm/options.py", "openai"),  # an interface of chat models
        ("live_eval/webrtc/livekit_messages.py", "livekit"),  # an extra
    },
    JUDGES: {
        ("live_eval/analysis/arena/outcome.py", "arena"),  # a key of the lines of `live-eval arena`
        ("live_eval/cli/__init__.py", "arena"),  # a command
        ("live_eval/data/benchmarks/audio_multichallenge.py", "rubric"),  # a column of a table
        ("live_eval/data/benchmarks/full_duplex.py", "transcription.json"),  # a file
        ("live_eval/data/manifest.py", "transcription"),  # a column of a manifest
        ("live_eval/judging.py", "prosody"),  # a role of judges
        ("live_eval/judging.py", "transcription"),  # a role of judges
        ("live_eval/run/prompts/__init__.py", "transcription"),  # a task
        ("live_eval/run/run_file.py", "transcription"),  # a task
        ("live_eval/studio/listening/listening_results.py", "arena"),  # a command
        ("live_eval/types.py", "transcription"),  # a task
    },
}


@pytest.mark.parametrize("group", NAMESAKES)
def test_the_harness_names_no_plugin(group: str) -> None:
    """No string contains the name of a client, a judge or a score."""
    names = {plugin.name for plugin in find_plugins(group)}
    written = re.compile(rf"""["'}}](?:{"|".join(map(re.escape, names))})["'.]""")
    named = {
        (path.relative_to(ROOT).as_posix(), node.value)
        for path in (ROOT / "live_eval").rglob("*.py")
        if path.relative_to(ROOT).parts[1] not in ("clients", "judges", "reference")
        if written.search(path.read_text("utf-8"))  # walking every file's syntax tree takes seconds
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.partition(".")[0] in names
    }
    assert named == NAMESAKES[group]


def test_the_run_files_default_endpoint_is_installed() -> None:
    assert validate({}).endpoint.name == client(REFERENCE).name
