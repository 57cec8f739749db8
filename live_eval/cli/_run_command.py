"""Implement ``live-eval run``: stream a data set to an endpoint and score its replies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

import live_eval.report
from live_eval.analysis.assertions import too_few_planned
from live_eval.analysis.comparison.run_comparison import APART_NS
from live_eval.analysis.run_estimate import estimate_run, total
from live_eval.analysis.summary.assertions import check_run
from live_eval.analysis.summary.run_summary import summarise
from live_eval.cli import ASSERTION_FAILED, FAILED, INTERRUPTED
from live_eval.cli._assertions import parse_assertions
from live_eval.cli._cluster import cluster_runner, connected_to, judging_on
from live_eval.cli._errors import print_notes
from live_eval.cli._estimate import assumptions_of, print_estimate
from live_eval.cli._flags import configured, overlay, reject_endpoint_flags
from live_eval.cli._options import folder_to_resume, new_folder, print_json
from live_eval.cli._prices import price_of
from live_eval.cli._progress import Bars, RunProgress
from live_eval.cli._resumed_run import finished_outcome, manifest_to_retry, open_writer
from live_eval.cli._stored_settings import print_judges_keys, print_key, stored_settings
from live_eval.cli._targets import names_of, run_file_of
from live_eval.cli.score import print_reasons
from live_eval.cli.show import print_summary, print_summary_json
from live_eval.errors import LiveEvalError, StoreError, UsageError
from live_eval.impair import parse
from live_eval.judging import score_name
from live_eval.recording import RUN_FILE, RunReader, RunWriter
from live_eval.registry import client, judge
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.presets import read_preset
from live_eval.run.prompts import load_prompt
from live_eval.run.run_file import ALL_TASKS, RunConfig, located, read_run_file, validate
from live_eval.run.runner import RunOutcome, run_plan
from live_eval.run.simultaneous import (
    SimultaneousRun,
    check_same_turns,
    onset_spreads_ms,
    run_simultaneously,
)
from live_eval.run.stop_signals import StopSignals, stop_with_stdin
from live_eval.scoring.judge_runner import check_named, check_options, judge_options, unable_judges
from live_eval.scoring.scoring_run import score_run
from live_eval.session.event_loop import run as run_loop
from live_eval.text.mappings import merged
from live_eval.text.wording import alternatives, counted
from live_eval.types import Task

if TYPE_CHECKING:
    from live_eval.analysis.assertions import Assertion
    from live_eval.analysis.run_estimate import RunEstimate
    from live_eval.cluster.ray_connection import Cluster
    from live_eval.judging import JudgeSpec

__all__ = ["run_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The checked settings of an endpoint or a run file: one configuration for each prompt.

    Args:
        named: Whether the user named the judges.
        wanted: Whether failures of judges affect the exit status.
    """

    runfile: Path | None
    flags: Mapping[str, Any]
    configs: Sequence[RunConfig]
    judges: Sequence[JudgeSpec]
    preset: str
    named: bool
    wanted: bool

    def plans(self) -> list[Plan]:
        """Return the plan of each configuration, without the default judges that are unavailable here."""
        left_out: Mapping[str, str] = {}
        config = self.configs[0]
        if config.cluster.ray is None:  # with Ray, judges run on the nodes
            left_out = _unable_judges(config, self.judges, named=self.named)
        with located(self.runfile, self.flags, "impair.specs"):
            parse(config.impair.specs)
        configs = [_without_judges(each, left_out) for each in self.configs]
        with located(self.runfile, self.flags):
            return [
                replace(make_plan(each), preset=self.preset, judges_left_out=left_out) for each in configs
            ]


def run_command(
    targets: tuple[str, ...],
    trusted: tuple[str, ...],
    asserts: tuple[str, ...],
    is_estimate: bool,
    price: str,
    assume: str,
    preset: str | None,
    simultaneous: bool,
    as_json: bool,
    until_stdin_ends: bool,
    **flags: Any,
) -> None:
    """Run ``live-eval run`` with the values of its flags, and exit with its status."""
    if not is_estimate and (price or assume):
        raise UsageError(f"{'--price' if price else '--assume'} requires --estimate")
    stop = click.get_current_context().with_resource(StopSignals())
    if until_stdin_ends:
        stop_with_stdin()
    if simultaneous or len(targets) > 1:
        if not simultaneous:
            raise UsageError(
                f"expected one endpoint or run file, got {len(targets)}; --simultaneous runs them together"
            )
        requests = _simultaneous_requests(targets, flags, trusted, preset)
        if is_estimate:
            _estimate(list(requests.values()), price, assume, as_json=as_json)
            return
        if as_json:
            raise UsageError("--json prints a single run: print each run with live-eval show --json")
        sys.exit(_run_simultaneously(requests, stop, asserts))
    request = _request(targets[0] if targets else None, flags, trusted, preset)
    config = request.configs[0]
    if as_json and len(request.configs) > 1 and not is_estimate:
        raise UsageError(
            "--json prints a single run: pass one prompt, or print each run with live-eval show --json"
        )
    assertions = _assertions(asserts, request.judges)
    if is_estimate:
        _estimate([request], price, assume, as_json=as_json)
        return
    plans = request.plans()
    wanted = request.wanted
    out = config.output.out or new_folder(config.endpoint.name)
    print_key(plans[0].key_recipient)
    cluster = click.get_current_context().with_resource(connected_to(config.cluster.ray))
    continue_with = f"rerun with --out {out} {'--retry-failed' if config.output.retry_failed else '--resume'}"
    if len(plans) == 1:
        sys.exit(
            _run_plan(plans[0], out, continue_with, stop, cluster, assertions, named=wanted, as_json=as_json)
        )
    statuses = []
    folders = [_folder_of(out, plan.config) for plan in plans]
    for plan, folder in zip(plans, folders, strict=True):
        click.echo(f"prompt {plan.config.task.prompt}: {folder}", err=True)
        output = plan.config.output
        resume = output.resume and (folder / RUN_FILE).exists()
        output = output.model_copy(update={"out": folder, "resume": resume})
        each = replace(plan, config=plan.config.model_copy(update={"output": output}))
        statuses.append(_run_plan(each, folder, continue_with, stop, cluster, assertions, named=wanted))
    click.echo(f"all prompts: live-eval leaderboard {' '.join(map(str, folders))}", err=True)
    sys.exit(max(statuses))


def _request(
    target: str | None, flags: dict[str, Any], trusted: Sequence[str], preset: str | None
) -> _Request:
    """Return the checked settings of an endpoint or a run file; raise an error for unknown names."""
    if target is None and flags["endpoint__name"] is None and not flags["output__retry_failed"]:
        raise UsageError(
            "expected an ENDPOINT or a RUNFILE; `live-eval run reference` needs no key, "
            "`live-eval endpoints` lists the others"
        )
    runfile = _run_file(target, flags)
    values = _run_values(runfile, flags, trusted)
    named = "names" in overlay(values, flags).get("judges", {})
    if preset is not None:
        values = merged(read_preset(preset), values)
    configs = _prompt_configs(configured(values, flags))
    config = configs[0]
    with located(runfile, flags, "endpoint.name"):
        client(config.endpoint.name)
    with located(runfile, flags, "judges.names"):
        judges = [judge(name) for name in config.judges.names]
    with located(runfile, flags, "judges.options"):
        check_options(judges, judge_options(config.judges))
    return _Request(
        runfile=runfile,
        flags=flags,
        configs=configs,
        judges=judges,
        preset=preset or "",
        named=named,
        wanted=named or preset is not None,
    )


def _assertions(asserts: Sequence[str], judges: Sequence[JudgeSpec]) -> list[Assertion]:
    scores = [score_name(spec.name, output.name) for spec in judges for output in spec.outputs]
    return parse_assertions("run", asserts, scores)


def _simultaneous_requests(
    targets: Sequence[str], flags: Mapping[str, Any], trusted: Sequence[str], preset: str | None
) -> dict[str, _Request]:
    """Return the settings of each endpoint or run file by name, each with its own run folder."""
    names = names_of(targets)
    if len(names) < 2:
        raise UsageError("--simultaneous: expected two or more endpoints or run files")
    reject_endpoint_flags(flags, "--simultaneous")
    requests: dict[str, _Request] = {}
    folders = _simultaneous_folders(names, flags)
    for name, target in zip(names, targets, strict=True):
        out = folders[name]
        resumes = (out / RUN_FILE).exists()  # a run that has not started yet is created
        again = {key: flags[key] if resumes else None for key in ("output__resume", "output__retry_failed")}
        each = _request(target, {**flags, **again, "output__out": out}, trusted, preset)
        if len(each.configs) > 1:
            raise UsageError("--simultaneous: expected one prompt")
        if each.configs[0].cluster.ray is not None:
            raise UsageError("--simultaneous does not support --ray")
        requests[name] = each
    return requests


def _simultaneous_folders(names: Sequence[str], flags: Mapping[str, Any]) -> dict[str, Path]:
    """Return each run's folder: the prefix ``--out``, a hyphen and the run's name."""
    again = (
        "--retry-failed" if flags["output__retry_failed"] else "--resume" if flags["output__resume"] else ""
    )
    given = flags["output__out"]
    if again and given is None:
        raise UsageError(f"{again} requires --out with the prefix of the runs to continue")
    first = new_folder(names[0])
    prefix = first.with_name(first.name.removesuffix(f"-{names[0]}")) if given is None else Path(given)
    folders = {name: prefix.with_name(f"{prefix.name}-{name}") for name in names}
    if again and not any((folder / RUN_FILE).exists() for folder in folders.values()):
        newest = folder_to_resume(given)
        assert newest is not None
        ends = [f"-{name}" for name in names if newest.name.endswith(f"-{name}")]
        near = f"; pass --out {newest.with_name(newest.name.removesuffix(ends[0]))}" if ends else ""
        missing = alternatives(list(map(str, folders.values())))
        raise UsageError(f"--out {given} {again}: no run to continue at {missing}{near}")
    return folders


def _run_simultaneously(requests: Mapping[str, _Request], stop: StopSignals, asserts: Sequence[str]) -> int:
    """Run several plans at the same time, then score each run; return the worst exit status."""
    assertions = {name: _assertions(asserts, request.judges) for name, request in requests.items()}
    plans: dict[str, Plan] = {}
    for name, request in requests.items():
        others = tuple(other for other in requests if other != name)
        [plan] = request.plans()
        plans[name] = replace(plan, simultaneous_with=others)
        print_key(plan.key_recipient)
    check_same_turns(plans)
    _print_too_few(plan, next(iter(assertions.values())))
    folders = {name: plan.config.output.out for name, plan in plans.items()}
    outs = {name: folder for name, folder in folders.items() if folder is not None}
    for name, folder in outs.items():
        click.echo(f"{name}: {folder}", err=True)
    first_name, first_out = next(iter(outs.items()))
    prefix = first_out.with_name(first_out.name.removesuffix(f"-{first_name}"))
    continue_with = f"rerun with --out {prefix} --resume"
    stop.last_words = f"Interrupted. To continue, {continue_with}"
    outcomes = _run_turns_together(plans, outs, stop)
    if any(isinstance(each, RunOutcome) and each.interrupted for each in outcomes.values()):
        click.echo(stop.last_words, err=True)
        return INTERRUPTED
    statuses = []
    for name, plan in plans.items():
        outcome = outcomes[name]
        if isinstance(outcome, RunOutcome) and outcome.complete:
            click.echo(f"\n{name}")
            named = requests[name].wanted
            statuses.append(
                _score_and_print(plan, outs[name], outcome, stop, None, assertions[name], named=named)
            )
            continue
        statuses.append(FAILED)
        why = _incomplete(outcome, plan, continue_with) if isinstance(outcome, RunOutcome) else outcome
        click.echo(f"{name}: {why}", err=True)
    spreads = onset_spreads_ms(list(outs.values()))
    if spreads:
        click.echo(
            f"the user's speech began in all runs within {median(spreads):.0f} ms (median) and "
            f"{max(spreads):.0f} ms (maximum), in {counted(len(spreads), 'session')}"
        )
        if apart := sum(spread > APART_NS / 1e6 for spread in spreads):
            click.echo(
                f"note: {apart} of {counted(len(spreads), 'session')} began more than 1 s apart, as after "
                "an interruption: compare them as separate runs",
                err=True,
            )
    click.echo(f"differences: live-eval compare {' '.join(map(str, outs.values()))}", err=True)
    return max(statuses)


def _run_turns_together(
    plans: Mapping[str, Plan], folders: Mapping[str, Path], stop: StopSignals
) -> dict[str, RunOutcome | LiveEvalError]:
    """Run all turns that are not recorded yet; return each run's outcome, or the error that ended the run."""
    outcomes: dict[str, RunOutcome | LiveEvalError] = {}
    runs: dict[str, SimultaneousRun] = {}
    with contextlib.ExitStack() as stack:
        first: RunProgress | None = None
        for name, plan in plans.items():
            finished = finished_outcome(plan)
            if finished is not None:
                outcomes[name] = finished
                continue
            writer = stack.enter_context(open_writer(plan, folders[name]))
            progress = RunProgress(name, below=first)
            first = first or progress
            runs[name] = SimultaneousRun(
                plan=plan,
                writer=writer,
                folder=folders[name],
                observer=progress,
                retry_failed=plan.config.output.retry_failed,
            )
        if first is None:
            return outcomes
        print_notes(dict.fromkeys(note for run in runs.values() for note in run.plan.notes))
        stack.enter_context(first)
        with stop.gently():
            try:
                results = run_loop(run_simultaneously(list(runs.values()), stop))
            except KeyboardInterrupt:  # the second signal
                return {**outcomes, **dict.fromkeys(runs, RunOutcome(0, 0, interrupted=True))}
        for (name, run), result in zip(runs.items(), results, strict=True):
            outcomes[name] = result
            run.writer.end(finished=isinstance(result, RunOutcome) and result.complete)
    return outcomes


def _run_values(runfile: Path | None, flags: dict[str, Any], trusted: Sequence[str]) -> dict[str, Any]:
    """Return the values of the run file, merged over those of the run whose failed turns are rerun."""
    values = read_run_file(runfile) if runfile is not None else {}
    if runfile is not None:
        validate(values, runfile)  # before flags change the values, because errors contain line numbers
    if flags["output__resume"] or flags["output__retry_failed"]:
        flags["output__out"] = folder_to_resume(flags["output__out"])
    given = overlay(values, flags)
    if not given.get("output", {}).get("retry_failed"):
        return values
    before = stored_settings(manifest_to_retry(given["output"].get("out")), given, trusted)
    return {table: {**before.get(table, {}), **values.get(table, {})} for table in (*before, *values)}


def _prompt_configs(config: RunConfig) -> list[RunConfig]:
    """Return the settings of each prompt's run; only the first includes tasks besides conversation."""
    text = config.task.prompt
    prompts = [text] if Path(text).is_file() else [each.strip() for each in text.split(",") if each.strip()]
    if len(prompts) < 2:
        return [config]
    if config.task.name not in (ALL_TASKS, Task.CONVERSATION):
        raise UsageError(f"several prompts ({text}) require --task conversation or --task all")
    if config.output.retry_failed:
        raise UsageError(f"--retry-failed reruns turns of a single run: expected one prompt, got {text}")
    for each in prompts:
        load_prompt(each)
    found: list[RunConfig] = []
    for each in prompts:
        name = Task.CONVERSATION.value if found else config.task.name
        task = config.task.model_copy(update={"prompt": each, "name": name})
        found.append(config.model_copy(update={"task": task}))
    if len({_folder_of(Path("run"), each) for each in found}) < len(found):
        raise UsageError(f"expected prompts with different names, got {text}")
    return found


def _folder_of(out: Path, config: RunConfig) -> Path:
    """Return the folder of a prompt's run, next to `out`."""
    return out.with_name(f"{out.name}-{Path(config.task.prompt).stem}")


def _run_plan(
    plan: Plan,
    out: Path,
    continue_with: str,
    stop: StopSignals,
    cluster: Cluster | None,
    assertions: Sequence[Assertion],
    *,
    named: bool,
    as_json: bool = False,
) -> int:
    """Run a plan, score the run and print its summary; return the exit status.

    Exits if the run was interrupted or could not be completed.
    """
    stop.last_words = f"Interrupted. To continue, {continue_with}"
    finished = finished_outcome(plan)
    _print_too_few(plan, assertions)
    if finished is not None:
        click.echo("note: all turns are recorded; only missing scores will be added", err=True)
        outcome = finished
    else:
        with open_writer(plan, out) as writer:
            try:
                outcome = _run_turns(plan, writer, out, stop, cluster)
            except StoreError as error:
                raise StoreError(f"{error}\nRecorded turns are kept. To continue, {continue_with}") from error
            except KeyboardInterrupt:  # the second signal
                outcome = RunOutcome(captured=0, failed=0, interrupted=True)
    if outcome.interrupted:
        click.echo(stop.last_words, err=True)
        sys.exit(INTERRUPTED)
    if not outcome.complete:
        click.echo(_incomplete(outcome, plan, continue_with), err=True)
        sys.exit(FAILED)
    return _score_and_print(plan, out, outcome, stop, cluster, assertions, named=named, as_json=as_json)


def _print_too_few(plan: Plan, assertions: Sequence[Assertion]) -> None:
    for note in too_few_planned(assertions, lambda _: len(plan.jobs)):
        click.echo(f"note: {note}", err=True)


def _incomplete(outcome: RunOutcome, plan: Plan, continue_with: str) -> str:
    recorded = outcome.captured + outcome.failed
    why = outcome.unreachable or "the others were not run; this is a bug in live-eval"
    return (
        f"{recorded} of {counted(len(plan.jobs), 'turn')} recorded, {outcome.failed} of them failed: {why}. "
        f"To continue, {continue_with}"
    )


def _score_and_print(
    plan: Plan,
    out: Path,
    outcome: RunOutcome,
    stop: StopSignals,
    cluster: Cluster | None,
    assertions: Sequence[Assertion],
    *,
    named: bool,
    as_json: bool = False,
) -> int:
    """Score a complete run and print its summary; return the exit status."""
    config = plan.config
    stop.last_words = f"Interrupted. All turns are recorded; to score them: live-eval score {out}"
    try:
        judged = _score(plan, out, cluster)
    except KeyboardInterrupt:
        click.echo(stop.last_words, err=True)
        sys.exit(INTERRUPTED)
    with RunReader.open(out) as run:
        summary = summarise(run)
        checked = check_run(assertions, summary, list(run.turns())) if assertions else []
    if as_json:
        print_summary_json(summary)
    else:
        print_summary(summary)
    for each in checked:
        click.echo(each.in_words, err=as_json)
    click.echo(f"run: {out}", err=as_json)
    if config.output.report:
        page = out / "report.html"
        live_eval.report.write_report([out], page)
        click.echo(f"report: {page}", err=as_json)
        if config.output.open_report:
            click.launch(str(page.resolve()))
    if not all(checked):
        return ASSERTION_FAILED
    return FAILED if outcome.failed or (named and not judged) else 0


def _estimate(requests: Sequence[_Request], price: str, assume: str, *, as_json: bool) -> None:
    """Print the estimate for the runs, including judges that the user named but that cannot run here."""
    assumptions, paid = assumptions_of(assume), price_of(price) if price else None
    estimates: list[RunEstimate] = []
    notes: dict[str, None] = {}
    for request in requests:
        configs, options = request.configs, judge_options(request.configs[0].judges)
        if configs[0].output.retry_failed:
            raise UsageError("--estimate does not support --retry-failed")
        left_out: Mapping[str, str] = {}
        if request.wanted:
            for name, reason in unable_judges(request.judges, options).items():
                notes[f"{name} cannot run yet: {reason}"] = None
        else:
            left_out = _unable_judges(configs[0], request.judges, named=False, connects=False)
        judges = [spec for spec in request.judges if spec.name not in left_out]
        for plan in (make_plan(config, needs_key=False) for config in configs):
            notes.update(dict.fromkeys((*plan.notes, *_prompt_notes(plan))))
            jobs = _unrecorded_jobs(plan, several=len(configs) > 1)
            estimates.append(estimate_run(plan, jobs, judges, options, price=paid, assumptions=assumptions))
    print_notes(notes)
    found = total(estimates, simultaneous=len(requests) > 1)
    if as_json:
        print_json(found.as_json())
    else:
        print_estimate(found)


def _unrecorded_jobs(plan: Plan, *, several: bool) -> Sequence[Job]:
    """Return the planned turns that are not yet recorded in the run to resume."""
    output = plan.config.output
    if not output.resume or output.out is None:
        return plan.jobs
    folder = _folder_of(output.out, plan.config) if several else output.out
    if several and not (folder / RUN_FILE).exists():
        return plan.jobs
    with RunReader.open(folder) as run:
        return [job for job in plan.jobs if job.turn_id not in run]


def _run_file(target: str | None, flags: dict[str, Any]) -> Path | None:
    """Return the run file named by `target`; if it names an endpoint, set the endpoint's flag instead."""
    if target is None:
        return None
    if (Path(target) / RUN_FILE).exists():
        raise UsageError(
            f"{target} is a recorded run: to continue it, run its endpoint with --out {target} --resume"
        )
    path = run_file_of(target)
    if path is not None:
        return path
    if flags["endpoint__name"] not in (None, target):
        raise UsageError(f"expected one endpoint, got {target} and --endpoint {flags['endpoint__name']}")
    flags["endpoint__name"] = target
    return None


def _unable_judges(
    config: RunConfig, specs: Sequence[JudgeSpec], *, named: bool, connects: bool = True
) -> Mapping[str, str]:
    """Return the default judges that cannot run on this machine, with reasons; print them as notes.

    Args:
        named: Whether the user named the judges.
        connects: Whether to test that the model servers on this machine accept connections.

    Raises:
        UsageError: A judge named by the user cannot run.
    """
    options = judge_options(config.judges)
    check_named(specs if named else (), options)
    if named:
        return {}
    unable = unable_judges(specs, options, connects=connects)
    for name, reason in unable.items():
        click.echo(f"note: judge skipped: {name}: {reason}", err=True)
    return unable


def _without_judges(config: RunConfig, left_out: Mapping[str, str]) -> RunConfig:
    names = tuple(name for name in config.judges.names if name not in left_out)
    return config.model_copy(update={"judges": config.judges.model_copy(update={"names": names})})


def _run_turns(
    plan: Plan, writer: RunWriter, out: Path, stop: StopSignals, cluster: Cluster | None
) -> RunOutcome:
    with RunProgress() as progress:
        print_notes((*plan.notes, *_prompt_notes(plan)))
        with stop.gently():
            retry_failed = plan.config.output.retry_failed
            runner = cluster_runner(cluster, plan, writer.manifest)
            turns = run_plan(plan, writer, out, progress, stop=stop, runner=runner, retry_failed=retry_failed)
            outcome = run_loop(turns)
            writer.end(finished=outcome.complete)
    return outcome


def _prompt_notes(plan: Plan) -> Iterator[str]:
    if plan.prompt.text and all(job.case.task is not Task.CONVERSATION for job in plan.jobs):
        tasks = ", ".join(dict.fromkeys(job.case.task.value for job in plan.jobs))
        yield f"the prompt {plan.prompt.name} is used only in conversations, not in the task {tasks}"


def _score(plan: Plan, out: Path, cluster: Cluster | None) -> bool:
    """Score the run; return whether every judge ran and scored every turn."""
    config, root = plan.config, plan.data.root
    if not config.judges.names:
        return True
    options = judge_options(config.judges)
    data_folders = filter(None, (root if root.is_dir() else root.parent, config.data.audio_root))
    options = replace(options, recordings=(*options.recordings, *data_folders))
    print_judges_keys(config.judges.names, options)
    with judging_on(cluster, options, config.judges) as pool, Bars() as progress:
        summary = score_run(out, config.judges.names, options=options, progress=progress, pool=pool)
    for line in summary.judges:
        if line.reason is not None or line.n_failed:
            print_reasons(line, err=True)
    return all(line.reason is None and not line.n_failed for line in summary.judges)
