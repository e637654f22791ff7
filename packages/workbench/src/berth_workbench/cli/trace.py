"""`berth trace`: workloads over time, from others' traces or from a daily pattern, for `berth simulate` and others."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from berth.cli.numbers import FiniteFloatRange
from berth.cli.option_rules import is_typed
from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from berth_workbench.traces.trace import TimedWorkload


Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("trace", short_help="Make workloads over time, from others' traces or from a pattern.")
def command() -> None:
    """Make workloads over time, for `berth simulate`, `berth compare` and `berth sweep`."""


def _out_option(command: Command) -> Command:
    decorate = click.option(
        "-o", "--output", "out", required=True, metavar="TRACE", help="The file to write; compressed if it ends in .gz."
    )
    return decorate(command)


@command.command("import", short_help="Turn a published trace into a workload.")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format",
    "of",
    type=click.Choice(["alibaba-2018", "alibaba-gpu-2023", "google-2019", "philly", "swf", "audit", "watch"]),
    required=True,
    help="Whose tables they are.",
)
@click.option(
    "--largest-node-memory",
    default="512Gi",
    show_default=True,
    metavar="QUANTITY",
    help="The memory of the largest machine, which the traces have as 100 or 1; philly, swf: of each.",
)
@click.option(
    "--largest-node-cpu",
    default="64",
    show_default=True,
    metavar="QUANTITY",
    help="The CPUs of the largest machine, which google-2019 has as 1; philly: of each.",
)
@click.option(
    "--begin",
    default=0.0,
    show_default=True,
    type=FiniteFloatRange(0),
    metavar="SECONDS",
    help="Leave out what begins earlier.",
)
@click.option("--end", default=None, type=FiniteFloatRange(), metavar="SECONDS", help="Leave out what begins later.")
@click.option(
    "--sample",
    default=1.0,
    show_default=True,
    type=FiniteFloatRange(0, 1, min_open=True),
    help="The share of machines and jobs to take; always the same ones.",
)
@_out_option
def import_(
    source: Path,
    of: str,
    largest_node_memory: str,
    largest_node_cpu: str,
    begin: float,
    end: float | None,
    sample: float,
    out: str,
) -> None:
    """Turn the tables in the directory SOURCE, or the file SOURCE, into a workload.

    \b
    alibaba-2018      machine_meta, and container_meta or batch_task (CSV)
    alibaba-gpu-2023  openb_node_list and openb_pod_list (CSV)
    google-2019       machine_events and instance_events (JSON lines or CSV)
    philly            cluster_job_log (JSON) and cluster_machine_list (CSV)
    swf               a file in the Standard Workload Format
    audit             audit logs of an API server (JSON lines)
    watch             watch events, as berth observe --events reads them

    Tables may be split into several files, and compressed with gzip. What the pods waited for then is not in the
    workload, only what they asked for and for how long they ran.
    """
    context = click.get_current_context()
    for option, formats in _USED_BY.items():
        if is_typed(context, option) and of not in formats:
            flag = "--" + option.replace("_", "-")
            raise click.UsageError(f"{flag} has no effect on {of}, which has no use for it: leave it out")
    until = float("inf") if end is None else end
    if until <= begin:
        raise click.BadParameter(f"{until:g} is not after --begin {begin:g}", param_hint="--end")
    memory = _amount("--largest-node-memory", largest_node_memory)
    cpu = _amount("--largest-node-cpu", largest_node_cpu, thousandths=True)
    workload = _imported(source, of, cpu, memory, begin, until, sample)
    if not workload.records:
        raise click.ClickException(f"{source}: there is no node, no pod and no job in it, or none in that time")
    _write(workload, out)


_USED_BY = {
    "largest_node_memory": ("alibaba-2018", "google-2019", "philly", "swf"),
    "largest_node_cpu": ("google-2019", "philly"),
    **dict.fromkeys(("begin", "end", "sample"), ("alibaba-2018", "alibaba-gpu-2023", "google-2019", "philly", "swf")),
}
"""Which formats have a use for an option."""


def _imported(
    source: Path, of: str, cpu: int, memory: int, begin: float, until: float, sample: float
) -> "TimedWorkload":
    from berth_workbench.traces import alibaba_2018, alibaba_gpu_2023, audit_log, google_2019, philly, recorded, swf

    span: dict[str, Any] = {"begin_s": begin, "end_s": until, "sample": sample}
    if of == "alibaba-2018":
        return alibaba_2018.read_alibaba_2018(source, largest_memory=memory, **span)
    if of == "alibaba-gpu-2023":
        return alibaba_gpu_2023.read_alibaba_gpu_2023(source, **span)
    if of == "google-2019":
        return google_2019.read_google_2019(source, largest_cpu=cpu, largest_memory=memory, **span)
    if of == "philly":
        return philly.read_philly(source, cpu=cpu, memory=memory, **span)
    if of == "swf":
        return swf.read_swf(source, node_memory=memory, **span)
    if of == "audit":
        return audit_log.read_audit_log(source)
    return recorded.recorded_workload([str(file) for file in audit_log.files_in(source)])


@command.command("generate", short_help="Draw a day: services that follow the sun, jobs, several teams.")
@click.option("--pods", default=100_000, show_default=True, type=click.IntRange(1), help="How many pods are made.")
@click.option("--nodes", default=1_000, show_default=True, type=click.IntRange(1), help="How many nodes there are.")
@click.option("--node-cpu", default=32, show_default=True, type=click.IntRange(1), help="CPUs of each node.")
@click.option("--node-memory-gib", default=128, show_default=True, type=click.IntRange(1), help="GiB of each node.")
@click.option(
    "--load",
    default=0.9,
    show_default=True,
    type=FiniteFloatRange(0, 5, min_open=True),
    help="The highest demand, as a share of all CPUs; at about 1 pods have to wait.",
)
@click.option("--hours", default=24.0, show_default=True, type=FiniteFloatRange(0, min_open=True), help="How long.")
@click.option("--teams", default=8, show_default=True, type=click.IntRange(1), help="Namespaces.")
@click.option(
    "--services",
    default=None,
    show_default="60, or one for 20 pods where that is fewer",
    type=click.IntRange(0),
    help="Services that are scaled.",
)
@click.option("--gpu-nodes", default=0, show_default=True, type=click.IntRange(0), help="How many nodes have GPUs.")
@click.option("--node-gpus", default=8, show_default=True, type=click.IntRange(1), help="GPUs of each of these.")
@click.option("--seed", default=0, show_default=True, help="Another seed is another day.")
@_out_option
def generate(
    pods: int,
    nodes: int,
    node_cpu: int,
    node_memory_gib: int,
    load: float,
    hours: float,
    teams: int,
    services: int | None,
    gpu_nodes: int,
    node_gpus: int,
    seed: int,
    out: str,
) -> None:
    """Draw a workload with a daily pattern; the same options and seed give the same file."""
    from berth_workbench.traces.generator import HOUR_S, DailyPattern, PatternError, daily_pattern

    pattern = DailyPattern(
        pods=pods,
        nodes=nodes,
        load=load,
        seconds=hours * HOUR_S,
        teams=teams,
        services=min(60, pods // 20) if services is None else services,
        node_cpu=node_cpu,
        node_memory_gib=node_memory_gib,
        gpu_nodes=gpu_nodes,
        node_gpus=node_gpus,
    )
    try:
        trace = daily_pattern(pattern, seed)
    except PatternError as error:
        option = "hours" if error.attribute == "seconds" else error.attribute.replace("_", "-")
        raise click.BadParameter(error.why, param_hint=f"'--{option}'") from None
    _write(trace, out)


@command.command("show", short_help="Tell what is in a workload.")
@click.argument("trace", type=click.Path(path_type=Path))
@output_option
def show(trace: Path, output: Output) -> None:
    """Tell what is in TRACE."""
    from berth_workbench.traces.trace import read_trace

    found = read_trace(trace)
    summary = _summary(found)
    if is_structured(output):
        print_structured(summary, output)
        return
    for name, value in summary.items():
        console_for(output).print(legible(f"{name:>9}  {value}"), markup=False)


def _summary(trace: "TimedWorkload") -> dict[str, object]:
    from berth_workbench.traces.trace import JobStarts, ServiceScales

    return {
        "source": trace.header.source,
        "hours": round(trace.header.seconds / 3600, 2),
        "nodes": len(trace.nodes),
        "jobs": sum(1 for record in trace.records if isinstance(record, JobStarts)),
        "services": len({(r.namespace, r.name) for r in trace.records if isinstance(r, ServiceScales)}),
        "pods": trace.pods,
        "records": len(trace.records),
    }


def _write(trace: "TimedWorkload", out: str) -> None:
    from berth_workbench.traces.trace import write_trace

    try:
        records = write_trace(out, trace.header, trace.records)
    except OSError as error:
        raise click.ClickException(f"-o {out}: cannot be written: {error.strerror}") from None
    click.echo(f"{out}: {trace.pods} pods over {trace.header.seconds / 3600:.1f} hours in {records} records", err=True)


def _amount(option: str, text: str, *, thousandths: bool = False) -> int:
    from berth.api.quantity import QuantityError, milli_value, value

    try:
        amount = milli_value(text) if thousandths else value(text)
    except QuantityError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    if amount <= 0:
        raise click.BadParameter(f"{text!r}: a machine has more than nothing", param_hint=option)
    return amount
