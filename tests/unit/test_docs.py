"""The commands in the documentation exist, with their flags and values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

from live_eval.cli import COMMANDS, cli
from live_eval.cli._assertions import parse_assertions
from live_eval.cli._help import CommandGroup
from live_eval.data import echomind, manifest, questions
from tests.support.bundled import SPECS
from tests.support.documentation import DOCS, PAGES, ROOT, blocks, calls, shell_lines, without_blocks
from tests.support.plugin_flags import plugin_flags

_INLINE = re.compile(r"`([^`\n]+)`")
_FLAG = re.compile(r"(?<!\S)--[a-z][\w-]*")


def check(arguments: list[str], *, whole: bool) -> None:
    """Parse arguments like the command line, without checking that files exist.

    Args:
        arguments: Arguments after ``live-eval``.
        whole: Whether required arguments must be present.
    """
    command: click.Command = cli
    name = "live-eval"
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        if not arguments:
            return
        if isinstance(command, CommandGroup):
            arguments = command.with_default(arguments)
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    context = click.Context(command, info_name=name)
    try:
        values, rest, _ = command.make_parser(context).parse_args(arguments)
    except click.BadOptionUsage:  # a flag without its value
        if whole:
            raise
        return
    assert not rest, f"nothing takes {rest}"
    for parameter in command.params:
        value = values.get(parameter.name)
        given = value if isinstance(value, (list, tuple)) else [value] if isinstance(value, str) else []
        missing = parameter.required and not given and not isinstance(value, bool)
        assert not (whole and missing), f"{parameter.name} is missing"
        if isinstance(parameter.type, click.Path):
            continue
        for one in given:
            # ``A|B`` in running text stands for any of them.
            for choice in one.split("|") if isinstance(parameter.type, click.Choice) else [one]:
                parameter.type.convert(choice, parameter, context)


def all_flags(command: click.Command = cli) -> set[str]:
    if not isinstance(command, click.Group):
        return {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    context = click.Context(command)
    inner = (command.get_command(context, name) for name in command.list_commands(context))
    return {"--help", "--help-all"}.union(*(all_flags(each) for each in inner if each is not None))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_run_as_written(page: Path) -> None:
    for line in shell_lines(page):
        for arguments in calls(line):
            check(arguments, whole=True)
    flags = all_flags() | plugin_flags()
    for code in _INLINE.findall(without_blocks(page)):
        assert flags.issuperset(_FLAG.findall(code)), code
        if code.startswith("live-eval "):
            check([word for word in code.split()[1:] if word != "--help"], whole=False)


def commands(group: click.Group) -> Iterator[click.Command]:
    """Yield a group and all commands below it."""
    yield group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command) if isinstance(command, click.Group) else [command]


def test_help_has_examples_that_run_as_written() -> None:
    for command in commands(cli):
        _, _, examples = inspect.cleandoc(command.help or "").partition("Examples:\n")
        lines = [line for line in examples.splitlines() if line.startswith("  live-eval ")]
        assert lines, command.name
        for line in lines:
            for arguments in calls(line):
                check(arguments, whole=True)


def test_a_row_of_a_table_is_one_line() -> None:
    lines = [(page, line) for page in PAGES for line in without_blocks(page).splitlines()]
    rows = [(page, line) for page, line in lines if line.startswith("|")]
    assert [(page, row) for page, row in rows if not (len(row) > 2 and row.endswith("|"))] == []


def test_a_page_ends_with_one_newline_and_has_no_double_blank_lines() -> None:
    texts = {page: page.read_text("utf-8") for page in PAGES}
    assert [page for page, text in texts.items() if text != f"{text.rstrip()}\n"] == []
    code = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    assert [page for page, text in texts.items() if "\n\n\n" in code.sub("```", text)] == []


def test_the_reference_lists_every_command() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text("utf-8")
    assert [name for name in COMMANDS if f"`live-eval {name}`" not in text] == []


def test_the_reference_shows_what_each_endpoint_was_tried_with() -> None:
    page = (DOCS / "reference/endpoints.md").read_text("utf-8")
    section = page.partition("## Third-party tests\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "|" in line]
    listed = {name.strip("`"): cells for name, *cells in rows[-len(SPECS) :]}
    trials = {spec.name: spec.trial for spec in SPECS.values()}
    assert listed == {name: [each.servers, each.clients, each.untried] for name, each in trials.items()}


def test_programs_that_clients_were_tried_with_are_in_the_tests() -> None:
    """Each program is pinned in the tests at its version, unless it was tried by hand."""
    strangers = ROOT / "tests/e2e/strangers"
    pins = [ROOT / "requirements-dev.lock", strangers / "package.json", *strangers.glob("requirements-*.txt")]
    pinned = re.findall(
        r'^ *"?([\w@/.-]+)(?:\[.*\])?(?:==|": ")([\d.]+)',
        "".join(path.read_text("utf-8") for path in pins),
        re.MULTILINE,
    )
    versions = {(name, ".".join(version.split(".")[:part])) for name, version in pinned for part in (2, 3)}
    packages = {"aimock": "@copilotkit/aimock", "pipecat": "pipecat-ai"}
    for spec in SPECS.values():
        for program in filter(None, f"{spec.trial.servers}, {spec.trial.clients}".split(", ")):
            name, version, *_ = program.split(" ")
            assert "by hand" in program or (packages.get(name, name), version) in versions, program


def test_pytest_has_the_flags_of_its_commands() -> None:
    lines = [line for page in PAGES for line in shell_lines(page) if re.match(r"(\$ )?pytest\b", line)]
    assert len(lines) > 3
    for line in lines:
        assert {flag for flag in _FLAG.findall(line) if "live-eval" in flag} <= plugin_flags(), line


def test_commands_of_workflows_run_as_written() -> None:
    [workflow] = (ROOT / "examples").rglob(".github/workflows/*.yml")
    lines = [line for line in workflow.read_text("utf-8").splitlines() if " live-eval report" in line]
    assert lines
    for line in lines:
        for arguments in calls(line):
            check([word for word in arguments if not word.startswith(">>")], whole=True)


def test_assertions_and_filters_are_parsed() -> None:
    [listed, *_] = blocks(DOCS / "reference/assertions.md", "")
    for line in listed.text.splitlines():
        command: Any = "duplex" if line.startswith("barge_in") else "run"
        assert parse_assertions(command, [line], ["wer_heard.normalized"])
    for page in PAGES:
        for line in shell_lines(page):
            for arguments in calls(line):
                for flag, text in pairwise(arguments):
                    if flag == "--assert":
                        command = arguments[0]
                        assert parse_assertions(command, [text]), line


@pytest.mark.parametrize(
    "line",
    [
        "live-eval nothing",
        "$ live-eval show RUN --no-such-flag",
        "live-eval show RUN | live-eval report",
        "live-eval show A B  # two",
        "live-eval endpoint --port many",
        "live-eval report A --format xls",
    ],
)
def test_a_command_that_does_not_run_is_found(line: str) -> None:
    *_, arguments = calls(line)
    with pytest.raises((AssertionError, click.UsageError)):
        check(arguments, whole=True)


@pytest.mark.parametrize(
    ("known", "title", "prefix"),
    [
        (echomind.KNOWN_FIELDS, "EchoMind's layout", ""),
        (questions.KNOWN_FIELDS, "Questions", questions.MAPPED),
        (manifest.KNOWN_FIELDS, "A manifest", ""),
    ],
)
def test_every_field_of_data_is_documented(
    known: Mapping[str, Sequence[str]], title: str, prefix: str
) -> None:
    page = (DOCS / "reference/data-formats.md").read_text("utf-8")
    [section] = re.findall(rf"^#+ {title}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    words = set(_INLINE.findall(section))
    assert [name for name in known if f"{prefix}{name}" not in words] == []
    last = {path.rpartition(".")[2] for paths in known.values() for path in paths}
    assert {name.removeprefix("{variant}_") for name in last} - words == set()
