"""`berth explain [POD]...`: why pods went where they went, or why they are pending, as the running scheduler tells it.

With names: each pod's decision, what it waits for, and its story; of more than a few pods a table, a row each. Without:
all that is pending, by workload. `chosen_pods` says which pods are meant, the answers come from the scheduler's debug
endpoints (`scheduler_in_use` says which scheduler is asked), `explain_output` prints them. Exit code 1 when nothing is
known of a pod or the scheduler does not answer.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import click

from berth.api.near_names import nearest
from berth.cli.chosen_pods import Chosen, ChosenPod, chosen_by
from berth.cli.known_names import complete_node, complete_pod
from berth.cli.option_rules import never_with
from berth.cli.output import Output, console_for, is_structured, output_option_naming, print_structured
from berth.cli.scheduler_in_use import (
    SchedulerAddress,
    SchedulerInUse,
    SchedulerQuestion,
    UnknownPodError,
    scheduler_options,
)
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from collections.abc import Callable

WATCH_PERIOD_S = 2.0
REPORTS_SHOWN = 3
"""Of so many pods the whole report is printed; more come as a table."""
REMEDIES = "berth.cli.explain.remedies"
"""The key under which the context of the command may have who says what would help: a `explain_output.Remedies`."""
REFUSED = "berth.cli.explain.refused"
"""The same for who says why the API server refuses pods that a workload lacks: a `chosen_pods.Refused`."""
ROWS_SHOWN = 20
"""How many pods the table lists; `-o wide` and the structured outputs have all of them."""

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
    not_asked: tuple[ChosenPod, ...] = ()
    """Pods that the table has no room for."""
    hints: tuple[str, ...] = ()
    """What was typed and is not there, in sentences."""
    missing: tuple[str, ...] = ()
    """A sentence for each workload of which the API server refuses pods."""


@click.command("explain", short_help="Why a pod went where it went, or why it is pending.")
@never_with("all_namespaces", "namespace", because="which takes all of them")
@click.argument("pods", nargs=-1, metavar="[POD]...", shell_complete=complete_pod)
@click.option(
    "-n",
    "--namespace",
    default="",
    help='The pods\' namespace (default "default"); without names, the one to look at instead of all.',
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Look into all namespaces.")
@click.option(
    "-l",
    "--selector",
    default="",
    metavar="KEY=VALUE,...",
    help="All pods with these labels, as the cluster of the kubeconfig has them.",
)
@scheduler_options
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_node,
    help="Show this node plugin by plugin; may be repeated.",
)
@click.option("--all-nodes", is_flag=True, help="Score and name every node, not only the best and the first ones.")
@click.option(
    "--shadow",
    is_flag=True,
    help="Show what shadow profiles would have decided otherwise, about the PODs or about all, and because of whom.",
)
@click.option("-w", "--watch", is_flag=True, help="Ask again and again, and print what has changed, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@output_option_naming("the pods")
def command(
    pods: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
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
    """Tell why each POD went where it went, or why it is pending; without a name, all that is pending, by workload.

    POD is a name, NAMESPACE/NAME, or pod/NAME as kubectl prints it; or deploy/NAME, sts/NAME, ds/NAME, rs/NAME or
    job/NAME for all pods of a workload. Of more than three pods there is a table, a row each. podgroup/NAME and
    workload/NAME ask about all that is placed together, claim/NAME about devices: why not, and what would help.

    The scheduler remembers the story of every pod that lives, and of those that are gone as long as its decision log
    has room. Of a pod that it does not remember, what the cluster of --kubeconfig has on record is told.
    """
    output = "json" if as_json else output
    if pods and selector:
        raise click.UsageError("-l chooses pods by their labels: name none beside it")
    if pods and all_namespaces:
        raise click.UsageError("a name is looked for in one namespace: leave -A out, or give -l instead of names")
    _check(selector)
    namespace = "" if all_namespaces else namespace
    chosen = chosen_by(pods, namespace, selector, everywhere=all_namespaces)
    if not chosen.is_anything and (nodes or all_nodes):
        raise click.UsageError("--node and --all-nodes are about a pod; name one")
    if shadow and (nodes or all_nodes):
        raise click.UsageError("--shadow has its own answer, without --node and --all-nodes")
    if shadow and (chosen.asks_the_cluster or len(chosen.names) > 1):
        raise click.UsageError("--shadow is about one pod, or about all")
    scheduler = SchedulerInUse(SchedulerAddress(server, certificate_authority, kubeconfig, context, lease))
    if chosen.asks_the_cluster and output == "name":
        print_structured(None, output, (pod.key for pod in chosen.pods(scheduler.access)))
        return
    explainer = Explainer(scheduler, _Asked(nodes, all_nodes), kubeconfig)

    def look() -> _Found:
        if shadow:
            return look_at_shadows(scheduler, chosen)
        if chosen.is_anything:
            most = None if output != "table" else ROWS_SHOWN
            missing: list[str] = []
            return explainer.look_at(pods_of(chosen, scheduler, missing), most)._replace(missing=tuple(missing))
        if output == "name":
            return _Found(scheduler.ask("/debug/queue", "what is pending"))
        path = f"/debug/pending?{urlencode({'namespace': namespace})}"
        return _Found(scheduler.ask(path, "what is pending"))

    def tell(found: _Found) -> None:
        if output == "json":
            click.echo(json.dumps(found.value, indent=2))
        elif is_structured(output):
            print_structured(found.value, output, _names(found.value, namespace))
        elif shadow:
            from berth.cli.explain_output import show_shadows

            show_shadows(found.value, console_for(output), [pod.key for pod in chosen.names])
        elif chosen.is_anything:
            for message in found.missing:
                click.echo(f"{legible(message)}.\n")
            _print_reports(found, output)
        else:
            from berth.cli.explain_output import show_pending

            remedies = click.get_current_context().meta.get(REMEDIES, _unknown)
            show_pending(found.value, console_for(output), namespace, remedies=remedies)
        for message in (*found.unknown, *found.hints):
            click.echo(legible(message), err=True)

    if watch:
        _watch(look, tell, clears=not is_structured(output) and sys.stdout.isatty())
        return
    found = look()
    tell(found)
    if found.unknown:
        sys.exit(1)


def _unknown(_named: Sequence[str]) -> Sequence[str]:
    return ()


def _not_refused(_kind: str, _key: str) -> str:
    return ""


def _check(selector: str) -> None:
    """Raise `click.BadParameter` for a selector that the API server would refuse."""
    from berth.api.selectors import SelectorError, parse_label_selector

    try:
        parse_label_selector(selector)
    except SelectorError as error:
        raise click.BadParameter(f"{selector!r}: {error}", param_hint="'-l' / '--selector'") from None


def _names(value: Json, namespace: str) -> list[str]:
    """Return the pods that an answer is about; what is pending is told of all namespaces."""
    differences = [one for report in value.get("shadows", ()) for one in report["differences"]]
    reports = differences if "shadows" in value else value.get("pods", [value])
    keys = [report["pod"] for report in reports]
    return [key for key in keys if not namespace or key.startswith(f"{namespace}/")]


def look_at_shadows(scheduler: SchedulerInUse, chosen: Chosen) -> _Found:
    """Return what the shadow profiles would have decided otherwise, about one pod or about all."""
    pod = next((each.key for each in chosen.names), "")
    return _Found(scheduler.ask(f"/debug/shadows?{urlencode({'pod': pod})}", "its shadow profiles"))


def pods_of(chosen: Chosen, scheduler: SchedulerInUse, missing: list[str]) -> Sequence[ChosenPod]:
    """Return the pods that are meant; `missing` is as with `Chosen.pods`.

    Raises `click.ClickException` where there are none.
    """
    if not chosen.asks_the_cluster:
        return chosen.names
    pods = chosen.pods(scheduler.access, missing, click.get_current_context().meta.get(REFUSED, _not_refused))
    if pods:
        return pods
    if missing:
        raise click.ClickException("; ".join(missing))
    where = f" in namespace {chosen.namespace}" if chosen.namespace else ""
    if chosen.selector:
        also = "; -A looks into all namespaces" if where else ""
        raise click.ClickException(f"no pod{where} has the labels {chosen.selector}{also}")
    told = ", ".join(f"{kind.kind} {space}/{name}" for kind, space, name in chosen.workloads)
    raise click.ClickException(f"{told} {'has' if len(chosen.workloads) == 1 else 'have'} no pods")


class Explainer:
    """Asks the scheduler about pods, and falls back on what the cluster has on record."""

    __slots__ = ("_asked", "_kubeconfig", "_scheduler")

    def __init__(self, scheduler: SchedulerInUse, asked: _Asked, kubeconfig: str) -> None:
        """`kubeconfig` is the one that was named; only that is fallen back on."""
        self._scheduler = scheduler
        self._asked = asked
        self._kubeconfig = kubeconfig

    def look_at(self, pods: Sequence[ChosenPod], most: int | None = None) -> _Found:
        """Return what is known of the pods, of `most` of them at most. That nothing is known of a single one is raised.

        Names that nobody knows get a hint at those that look alike.
        """
        shown = pods[:most]
        reports: list[Json] = []
        records: list[str] = []
        unknown: list[tuple[str, str]] = []
        for pod, answer in zip(shown, self._scheduler.ask_all([self._question(pod) for pod in shown]), strict=True):
            try:
                report, why = self._report(pod, answer)
            except UnknownPodError as nobody:
                unknown.append((pod.key, nobody.message))
                continue
            reports.append(report)
            records.append(why)
        told = self._told_unknown(unknown)
        if told and len(pods) == 1:
            raise UnknownPodError(told[0])
        value = reports[0] if len(pods) == 1 else {"pods": reports}
        return _Found(value, tuple(records), told, tuple(pods[len(shown) :]), tuple(self._hints_at_nodes(reports)))

    def _question(self, pod: ChosenPod) -> SchedulerQuestion:
        query = [("node", node) for node in self._asked.nodes] + (
            [("allNodes", "true")] if self._asked.all_nodes else []
        )
        path = f"/debug/decisions/{quote(pod.namespace, safe='')}/{quote(pod.name, safe='')}?{urlencode(query)}"
        return SchedulerQuestion(path, pod.key)

    def _report(self, pod: ChosenPod, answer: Json | click.ClickException) -> tuple[Json, str]:
        """Return what the scheduler knows of a pod, or what the cluster has on record, and then why it is only that."""
        if not isinstance(answer, click.ClickException):
            return answer, ""
        from berth.cli.pod_record import NoRecord, read_record, record_of

        if pod.manifest is not None and isinstance(answer, UnknownPodError):
            return record_of(pod.manifest), answer.message
        if not self._kubeconfig:
            raise answer
        try:
            return read_record(self._kubeconfig, pod.namespace, pod.name), answer.message
        except NoRecord as error:
            if isinstance(answer, UnknownPodError) and error.is_not_found:
                raise answer from None
            raise click.ClickException(f"{answer.message}; and from the cluster: {error}") from None

    def _told_unknown(self, unknown: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Return a sentence for each unknown pod, from its key and what the scheduler said."""
        if not unknown:
            return ()
        from berth.cli.known_names import pods_known_to

        known = pods_known_to(self._scheduler)
        return tuple(
            said if key in known.keys else f"{said}{known.hint(key) or '; check the name and --namespace'}"
            for key, said in unknown
        )

    def _hints_at_nodes(self, reports: Sequence[Json]) -> Iterator[str]:
        """Yield a sentence for each node of `--node` that there is not."""
        decisions = [report["decision"] for report in reports if report.get("decision")]
        not_seen = {each["node"] for decision in decisions for each in decision["nodes"] if each["fits"] is None}
        if not not_seen:
            return
        from berth.cli.known_names import nodes_known_to

        known = nodes_known_to(self._scheduler)
        for name in self._asked.nodes:
            if known and name in not_seen and name not in known:
                yield f"there is no node {name}{nearest(name, known)}"


def _print_reports(found: _Found, output: Output) -> None:
    from berth.cli.explain_output import show, show_table

    reports = found.value.get("pods", [found.value])
    if len(reports) + len(found.not_asked) > REPORTS_SHOWN:
        show_table(reports, found.not_asked, console_for(output))
        return
    for place, (report, why) in enumerate(zip(reports, found.records, strict=True)):
        if place:
            click.echo()
        if why:
            from berth.cli.pod_record import sentences

            click.echo("\n".join(map(legible, sentences(report))))
            click.echo(legible(f"(only what the cluster has on record: {why})"), err=True)
        else:
            show(report, console_for(output), in_full=output == "wide")


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
