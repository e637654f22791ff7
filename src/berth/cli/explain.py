"""`berth explain [POD]...`: why pods went where they went, or why they are pending, as the running scheduler tells it.

With names: each pod's decision, what it waits for, and its story. Without: all that is pending, by reason. The answers
come from the scheduler's debug endpoints (`asking` says which scheduler is asked); `explain_output` prints them. Exit
code 1 when nothing is known of a pod or the scheduler does not answer.
"""

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import click

from berth.cli.option_rules import never_with, only_with
from berth.cli.output import Output, console_for, is_structured, print_structured
from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse, UnknownPodError
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from collections.abc import Callable

WATCH_PERIOD_S = 2.0

Json = dict[str, Any]


class _Asked(NamedTuple):
    """What is wanted of each pod."""

    nodes: tuple[str, ...] = ()
    all_nodes: bool = False


class _Found(NamedTuple):
    """What there is to print."""

    value: Json
    """One answer, or those about several pods under `pods`."""
    records: tuple[str, ...] = ()
    """For each pod, why only the cluster's own record of it is told; empty where the scheduler has told."""
    unknown: tuple[str, ...] = ()
    """A sentence for each pod of which nothing is known."""


@click.command("explain", short_help="Why a pod went where it went, or why it is pending.")
@only_with(certificate_authority="server")
@never_with("server", "lease", because="which says whom to ask")
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option(
    "-n",
    "--namespace",
    default="",
    help='The pods\' namespace (default "default"); without names, the one to look at instead of all.',
)
@click.option(
    "--server",
    default="",
    envvar="BERTH_SCHEDULER",
    metavar="URL",
    help="Where the scheduler serves; by default it is looked for on this machine, then in the cluster.",
)
@click.option(
    "--certificate-authority",
    default="",
    metavar="FILE",
    help="With an https:// --server: the certificate, or its authority's, that is expected there.",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="The cluster, and the credentials to ask with; by default those that kubectl would use. Where the scheduler "
    "does not remember the pod, what this cluster has on record is told.",
)
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@click.option(
    "--lease", default="", metavar="NAMESPACE/NAME", help="The lease whose holder to ask (kube-system/kube-scheduler)."
)
@click.option(
    "--node", "nodes", multiple=True, metavar="NAME", help="Show this node plugin by plugin; may be repeated."
)
@click.option("--all-nodes", is_flag=True, help="Score and name every node, not only the best and the first ones.")
@click.option(
    "--shadow",
    is_flag=True,
    help="Show what shadow profiles would have decided otherwise, about the PODs or about all, and because of whom.",
)
@click.option("-w", "--watch", is_flag=True, help="Ask again and again, and print what has changed, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print it; wide shows everything, in tables as wide as they are.",
)
def command(
    pods: tuple[str, ...],
    namespace: str,
    server: str,
    certificate_authority: str,
    kubeconfig: str,
    context: str,
    lease: str,
    nodes: tuple[str, ...],
    all_nodes: bool,
    shadow: bool,
    watch: bool,
    output: Output,
    as_json: bool,
) -> None:
    """Tell why each POD went where it went, or why it is pending; without a name, all that is pending, by reason.

    POD is a name, NAMESPACE/NAME, or pod/NAME as kubectl prints it. The scheduler remembers the story of every pod that
    lives, and of those that are gone as long as its decision log has room.
    """
    output = "json" if as_json else output
    if not pods and (nodes or all_nodes):
        raise click.UsageError("--node and --all-nodes are about a pod; name one")
    if shadow and (nodes or all_nodes):
        raise click.UsageError("--shadow has its own answer, without --node and --all-nodes")
    scheduler = SchedulerInUse(SchedulerAddress(server, certificate_authority, kubeconfig, context, lease))
    keys = [key_of(pod, namespace) for pod in pods]

    def look() -> _Found:
        if shadow:
            return look_at_shadows(scheduler, keys)
        if keys:
            return look_at_pods(scheduler, keys, _Asked(nodes, all_nodes), kubeconfig)
        path = f"/debug/pending?{urlencode({'namespace': namespace})}"
        return _Found(scheduler.ask(path, "what is pending"))

    def tell(found: _Found) -> None:
        if is_structured(output):
            _print(found.value, output)
        elif shadow:
            from berth.cli.explain_output import show_shadows

            show_shadows(found.value, console_for(output), [f"{namespace}/{name}" for namespace, name in keys])
        elif keys:
            _print_reports(found, output)
        else:
            from berth.cli.explain_output import show_pending

            show_pending(found.value, console_for(output), namespace)
        for message in found.unknown:
            click.echo(legible(message), err=True)

    if watch:
        _watch(look, tell, clears=not is_structured(output) and sys.stdout.isatty())
        return
    found = look()
    tell(found)
    if found.unknown:
        sys.exit(1)


def key_of(pod: str, namespace: str) -> tuple[str, str]:
    """Return namespace and name of a pod as it was typed."""
    before, slash, name = pod.partition("/")
    if not slash:
        return namespace or "default", pod
    return (namespace or "default") if before in ("pod", "pods") else before, name


def look_at_shadows(scheduler: SchedulerInUse, keys: list[tuple[str, str]]) -> _Found:
    """Return what the shadow profiles would have decided otherwise, about some pods or about all."""
    if len(keys) > 1:
        raise click.UsageError("--shadow is about one pod, or about all")
    pod = "/".join(keys[0]) if keys else ""
    return _Found(scheduler.ask(f"/debug/shadows?{urlencode({'pod': pod})}", "its shadow profiles"))


def look_at_pods(scheduler: SchedulerInUse, keys: list[tuple[str, str]], asked: _Asked, kubeconfig: str) -> _Found:
    """Return what is known of pods. With a single one, that nothing is known is raised."""
    reports: list[Json] = []
    records: list[str] = []
    unknown: list[str] = []
    for key in keys:
        try:
            report, why = _report(scheduler, key, asked, kubeconfig)
        except UnknownPodError as nobody:
            if len(keys) == 1:
                raise
            unknown.append(nobody.message)
            continue
        reports.append(report)
        records.append(why)
    return _Found(reports[0] if len(keys) == 1 else {"pods": reports}, tuple(records), tuple(unknown))


def _report(scheduler: SchedulerInUse, key: tuple[str, str], asked: _Asked, kubeconfig: str) -> tuple[Json, str]:
    """Return what the scheduler knows of a pod, or what the cluster has on record, and then why it is only that."""
    namespace, pod = key
    query = [("node", node) for node in asked.nodes] + ([("allNodes", "true")] if asked.all_nodes else [])
    path = f"/debug/decisions/{quote(namespace, safe='')}/{quote(pod, safe='')}?{urlencode(query)}"
    try:
        return scheduler.ask(path, f"{namespace}/{pod}"), ""
    except click.ClickException as unknown:
        if not kubeconfig:
            raise
        from berth.cli.pod_record import NoRecord, read_record

        try:
            return read_record(kubeconfig, namespace, pod), unknown.message
        except NoRecord as error:
            raise click.ClickException(f"{unknown.message}; and from the cluster: {error}") from None


def _print_reports(found: _Found, output: Output) -> None:
    from berth.cli.explain_output import show

    reports = found.value.get("pods", [found.value])
    for place, (report, why) in enumerate(zip(reports, found.records, strict=True)):
        if place:
            click.echo()
        if why:
            from berth.cli.pod_record import sentences

            click.echo("\n".join(map(legible, sentences(report))))
            click.echo(legible(f"(only what the cluster has on record: {why})"), err=True)
        else:
            show(report, console_for(output), in_full=output == "wide")


def _print(value: Json, output: Output) -> None:
    if output == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        print_structured(value, output)


def _watch(look: "Callable[[], _Found]", tell: "Callable[[_Found], None]", *, clears: bool) -> None:
    """Look again and again, and print what is not as it was; Ctrl-C ends it."""
    last: _Found | str | None = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            found: _Found | str
            try:
                found = look()
            except click.ClickException as error:
                found = error.format_message()
            if found != last:
                if clears:
                    click.clear()
                elif last is not None:
                    click.echo("---")
                if isinstance(found, _Found):
                    tell(found)
                else:
                    click.echo(legible(found))
                last = found
                sys.stdout.flush()
            time.sleep(WATCH_PERIOD_S)
