"""Tests mirror the packages: the path of a module gives the path of its tests."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.sources import nodes, parsed

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("unit", "loopback", "conformance", "e2e")
PLACES = (("live_eval", ""), ("clients", "clients/"), ("judges", "judges/"))

# The test files of modules without a test file of the same name, as "ROOM/ MODULE MODULE". A test file must
# import its modules, or reach them by the imports of a room; end-to-end tests run the program instead. Add a
# module only if its tests cannot have its name.
COVERED = {
    "conformance/test_dialects.py": "cassettes/ player testing/ dialects",
    "conformance/test_fuzz.py": "testing/ fuzz",
    "conformance/test_judges.py": "/ judging testing/ judges",
    "conformance/test_situations.py": "testing/ situations",
    "e2e/test_exports.py": "export/ inspect_log",
    "e2e/test_ray.py": "cluster/ judge_actor judge_workers session_actor",
    "loopback/campaigns/latency/test_campaign.py": "campaigns/ campaign",
    "loopback/clients/transports/test_webrtc.py": "webrtc/ rtp_tap",
    "loopback/pytest_plugin/test_plugin.py": "pytest_plugin/ endpoint_tester",
    "loopback/reference/server/test_signalling.py": (
        "reference/faults/ handshake reference/server/ authentication webrtc/ answering"
    ),
    "loopback/run/test_processes.py": "run/ session_process session_workers",
    "loopback/run/test_runner.py": "run/ recordings session_attempt",
    "loopback/scoring/llm/test_calls.py": "http/ dates scoring/llm/ metering",
    "loopback/scoring/test_judge_processes.py": "scoring/ judge_process",
    "loopback/studio/test_application.py": "studio/talking/ page_conversation talk_settings",
    "loopback/studio/test_compare_api.py": "studio/ compared_turns",
    "loopback/studio/test_runs_api.py": (
        "studio/ audio_api front_end library lookups report_pages transcript turn_details turns_api words_api"
    ),
    "unit/analysis/arena/test_outcome.py": "analysis/arena/ verdicts vote_file",
    "unit/analysis/audit/test_auditor.py": "analysis/audit/ asking experiments probes sample",
    "unit/analysis/audit/test_reliability.py": "analysis/audit/ labels",
    "unit/analysis/comparison/test_run_comparison.py": (
        "analysis/comparison/ boundaries difference prompts run_settings series"
    ),
    "unit/analysis/cue_sensitivity/test_effects.py": "analysis/cue_sensitivity/ measures",
    "unit/analysis/latency/test_definitions.py": "analysis/latency/ evidence",
    "unit/analysis/latency/test_campaign_latencies.py": "analysis/latency/ cost delivery waterfall",
    "unit/analysis/summary/test_run_summary.py": (
        "analysis/summary/ audits groups latencies observations task_metrics"
    ),
    "unit/analysis/test_task_levels.py": "analysis/ leaderboard_columns",
    "unit/analysis/turn_taking/test_outcomes.py": "analysis/turn_taking/ speech",
    "unit/data/benchmarks/test_benchmarks.py": "data/benchmarks/ catalogue specification",
    "unit/clients/toolkit/test_phone_line.py": "clients/dialects/ exotel plivo telnyx vonage",
    "unit/campaigns/duplex/probes/test_bundled.py": "campaigns/duplex/probes/ probe",
    "unit/campaigns/duplex/test_stimuli.py": "analysis/turn_taking/ trial",
    "unit/campaigns/duplex/test_summary.py": "analysis/turn_taking/ trial_metrics trial_pairs",
    "unit/analysis/latency/test_assertions.py": "analysis/statistics/ distribution",
    "unit/campaigns/latency/test_summary.py": (
        "analysis/latency/ drift endpointing campaigns/ documents campaigns/latency/ point_metrics "
        "reply_words"
    ),
    "unit/judges/specs/test_specs.py": "judges/specs/ models text",
    "unit/live/test_live_session.py": "live/ microphone",
    "unit/live/test_screen.py": "live/ lines",
    "unit/recording/test_calibrations.py": "recording/ machine_records",
    "unit/recording/test_writer.py": "recording/ schema",
    "unit/redaction/test_redactor.py": "redaction/ secret_settings spellings",
    "unit/reference/faults/test_fault_script.py": "reference/faults/ injection",
    "unit/reference/protocols/test_elevenlabs_room.py": "reference/protocols/ data_packets",
    "unit/reference/protocols/test_openai_events.py": "reference/protocols/ openai_schema",
    "unit/reference/protocols/test_webrtc.py": "reference/protocols/ protocol",
    "unit/reference/test_emulation.py": "reference/responders/ speech_models reference/server/ app",
    "unit/report/duplex/test_page.py": (
        "report/ drift_table report/duplex/ charts sides sounds tables trial_view"
    ),
    "unit/report/latency/test_page.py": "report/latency/ tables",
    "unit/report/test_bars.py": "report/ cells",
    "unit/session/test_long_sessions.py": "session/ log timeline",
    "unit/session/test_session.py": "session/ connection playback testing/ memory_transport",
    "unit/session/test_sources.py": "session/ preroll verdict",
    "unit/sockets/test_impaired.py": "sockets/ datagrams delays stream",
    "unit/test_clock.py": "testing/ fake_clock",
    "unit/test_house.py": "/ errors",
    "unit/test_timing.py": "/ playout types",
}

# Unit tests of subjects that several modules share.
SUBJECTS = {
    "unit/analysis/statistics/test_order.py",
    "unit/cli/test_exit.py",
    "unit/cli/test_json_output.py",
    "unit/cli/test_output.py",
    "unit/data/test_dialogues.py",
    "unit/data/test_sample.py",
    "unit/data/test_script_columns.py",
    "unit/export/test_failures.py",
    "unit/judges/test_injections.py",
    "unit/live/test_shared_screen.py",
    "unit/recording/test_damage.py",
    "unit/recording/test_foreign_files.py",
    "unit/recording/test_foreign_run.py",
    "unit/recording/test_lock_holder.py",
    "unit/recording/test_old_runs.py",
    "unit/recording/test_replaced_scores.py",
    "unit/session/test_barge_in.py",
    "unit/session/test_dialogues.py",
    "unit/session/test_long_sessions.py",
    "unit/session/test_session_moves.py",
    "unit/session/test_session_tracks.py",
    "unit/studio/listening/test_mushra.py",
    "unit/test_docs.py",
    "unit/test_docs_code.py",
    "unit/test_house.py",
    "unit/test_release.py",
    "unit/test_tree.py",
}

# Tests that need a private module of another room, with the reason.
PRIVATE_IMPORTS = {
    ("conformance/test_dialects.py", "clients/dialects/_pipecat_frames"),  # audio inside protobuf messages
    ("loopback/scoring/test_judge_processes.py", "cli/_stored_settings"),  # the jobs that a command stores
    ("unit/campaigns/latency/test_summary.py", "cli/_latency_command"),  # what a campaign prints
    ("unit/run/test_redacted_settings.py", "cli/_flags"),  # every flag of a run may contain a secret
    ("unit/run/test_redacted_settings.py", "cli/_stored_settings"),
    ("unit/test_docs.py", "cli/_assertions"),  # the values of --assert
    ("unit/test_docs.py", "cli/_help"),  # the groups of commands
    ("unit/test_docs_code.py", "cli/_duplex_command"),  # what a campaign prints
}


def module_files() -> dict[str, Path]:
    """Return the files of all modules except packages, by their path below `live_eval` without suffix."""
    return {
        prefix + path.relative_to(ROOT / place).with_suffix("").as_posix(): path
        for place, prefix in PLACES
        for path in (ROOT / place).rglob("*.py")
        if not path.name.startswith("__") and "templates" not in path.parts
    }


MODULES = module_files()
PACKAGES = {
    Path(prefix, path.parent.relative_to(ROOT / place)).as_posix(): path
    for place, prefix in PLACES
    for path in (ROOT / place).rglob("__init__.py")
}
TESTS = {
    path.relative_to(ROOT / "tests").as_posix(): path
    for kind in KINDS
    for path in (ROOT / "tests" / kind).rglob("test_*.py")
}


def mirrored(module: str) -> set[str]:
    """Return the test files with a module's name; a private module's name loses its underscore."""
    room, _, name = module.rpartition("/")
    return {"/".join(filter(None, (kind, room, f"test_{name.lstrip('_')}.py"))) for kind in KINDS}


def only_declares(path: Path) -> bool:
    """Return whether no function of a module has more than a docstring and one statement."""
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return all(len(node.body) - (ast.get_docstring(node) is not None) <= 1 for node in functions)


IMPORTED = re.compile(r"^ *from (live_eval[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the modules and packages that a file imports or names, also through names exported by packages.

    The text is searched, because walking the syntax trees of all files takes seconds.
    """
    text = path.read_text("utf-8")
    found = set(re.findall(r"live_eval[.\w]+", text))  # some modules are loaded by name
    for package, imported in IMPORTED.findall(text):
        names = re.findall(r"\w+", imported)
        found.update(f"{package}.{name}" for name in names)
        found.update(exporter(package, name) for name in names)
    paths = {name.removeprefix("live_eval.").replace(".", "/") for name in found}
    return frozenset(paths & (MODULES.keys() | PACKAGES.keys()))


def exporter(package: str, name: str) -> str:
    """Return the module from which a package imports a name that it exports."""
    path = PACKAGES.get(package.removeprefix("live_eval.").replace(".", "/"))
    for node in parsed(path).body if path else ():
        if not isinstance(node, ast.ImportFrom) or node.module in (None, package):
            continue
        if any(name == alias.name for alias in node.names):
            return exporter(str(node.module), name)
    return package


def reached(test: str) -> set[str]:
    """Return the modules that a test file imports, directly or through imports within their rooms."""
    found, new = set[str](), {(name, "") for name in imports(TESTS[test])}
    while new:
        found |= {name for name, _ in new}
        new = {
            (name, room_of(via))
            for via, room in new
            if room in ("", room_of(via))
            for name in imports(MODULES.get(via) or PACKAGES[via])
            if name not in found
        }
    return found


def room_of(module: str) -> str:
    return module.partition("/")[0]


def is_exempt(module: str) -> bool:
    """Private modules are tested through the public ones, and commands through `live-eval`."""
    name = module.rpartition("/")[2]
    return name.startswith("_") or room_of(module) == "cli" or only_declares(MODULES[module])


def covered() -> dict[str, set[str]]:
    """Return the modules of each test file in `COVERED`."""
    found: dict[str, set[str]] = {test: set() for test in COVERED}
    for test, words in COVERED.items():
        room = ""
        for word in words.split():
            if word.endswith("/"):
                room = word.lstrip("/")
            else:
                found[test].add(room + word)
    return found


def test_every_module_has_a_test_file() -> None:
    listed = set().union(*covered().values())
    alone = {name for name in MODULES if not (mirrored(name) & TESTS.keys() or is_exempt(name))}
    assert sorted(alone - listed) == [], "write tests/unit/ROOM/test_MODULE.py, or add the module to COVERED"
    assert sorted(listed - alone) == [], (
        "remove these from COVERED: they are gone or have a file of their own"
    )


def test_listed_test_files_reach_their_modules() -> None:
    assert sorted(COVERED.keys() - TESTS.keys()) == [], "these test files of COVERED do not exist"
    missed = {
        test: sorted(absent)
        for test, modules in covered().items()
        if not test.startswith("e2e/") and (absent := modules - reached(test))
    }
    assert missed == {}, "name test files in COVERED that import these modules"


def test_every_test_file_is_named_after_a_module() -> None:
    known = set().union(
        *map(mirrored, MODULES), *(mirrored(f"{room}/{Path(room).name}") for room in PACKAGES)
    )
    odd = {test for test in TESTS if test.startswith("unit/")} - known
    assert sorted(odd - SUBJECTS) == [], "name the file after the module that it tests, or add it to SUBJECTS"
    assert sorted(SUBJECTS - odd) == [], "remove these from SUBJECTS: they are gone or named after a module"


PRIVATE = {module for module in MODULES if "/_" in module}


def private_modules(path: Path) -> set[str]:
    """Return the private modules that a file imports directly."""
    names = {
        name
        for package, imported in IMPORTED.findall(path.read_text())
        for name in (package, *(f"{package}.{word}" for word in re.findall(r"\w+", imported)))
    }
    return {module for module in PRIVATE if "live_eval." + module.replace("/", ".") in names}


def test_modules_import_no_private_module_of_another_room() -> None:
    found = {
        (module, private)
        for module, path in (MODULES | PACKAGES).items()
        for private in private_modules(path)
        if not module.startswith("judges" if room_of(private) == "judges" else private.partition("/_")[0])
    }
    assert found == set(), "export what they need, or move it to a room of its own"


def test_tests_import_no_private_module_of_another_room() -> None:
    found = {
        (test, module)
        for test, path in TESTS.items()
        for module in private_modules(path)
        if room_of(module) != test.split("/")[1]
    }
    assert sorted(found - PRIVATE_IMPORTS) == [], "test these through public names, or in their own room"
    assert sorted(PRIVATE_IMPORTS - found) == [], "remove these from PRIVATE_IMPORTS: no test needs them"
