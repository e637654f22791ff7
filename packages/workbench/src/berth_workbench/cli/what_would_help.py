"""`berth explain [POD]... --what-would-help`: the least changes after which pending pods fit, each tried.

The cluster is read from files or through a kubeconfig, into memory; nothing in it is changed. Asked about are pods or
workloads of the cluster, what a manifest makes, or without a name all that is pending: of each workload once.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from berth.api.typed_names import whole_named
from berth.api.user_error import UserError
from berth.cli.chosen_pods import chosen_by
from berth.cli.explain import REFUSED, REMEDIES
from berth.cli.kubectl import is_plugin
from berth.cli.option_rules import never_with
from berth.cli.output import Output, console_for, is_structured, print_structured
from berth.cli.setup import warn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.cluster_input import read_manifests
from berth_workbench.cli.progress import EndedEarly, for_option, found_by_then, jobs_option, nothing_by_then, working

if TYPE_CHECKING:
    from berth_workbench.planning.help.claims import ClaimHelp
    from berth_workbench.planning.help.result import HeldAtPermit, Help
    from berth_workbench.questions.explain import Explaining
    from berth_workbench.simulation.cluster import SimulatedCluster
    from berth_workbench.simulation.watch import WorkWatch

MEMBERS_ASKED = 64
"""Of so many members of a gang the scheduler is asked whether it holds them at Permit."""
ASKED_OF_SCHEDULERS = (
    "all_namespaces",
    "selector",
    "server",
    "certificate_authority",
    "lease",
    "nodes",
    "all_nodes",
    "shadow",
    "watch",
)
"""The parameters of `berth explain` that only a scheduler can answer."""


def extend(explain: click.Command) -> click.Command:
    """`berth explain` with `--what-would-help` and where its cluster comes from; given that, it asks no scheduler."""
    asks_the_scheduler = explain.callback
    assert asks_the_scheduler is not None

    @never_with("what_would_help", *ASKED_OF_SCHEDULERS, because="which works on the cluster and asks no scheduler")
    def either(
        *,
        what_would_help: bool,
        cluster: tuple[str, ...],
        manifests: tuple[str, ...],
        config_file: str,
        plugins: tuple[str, ...],
        feature_gates: str,
        output: Output,
        **given: Any,
    ) -> None:
        named = given.get("pods", ())
        is_whole = any(whole_named(each, "") for each in named)
        if is_whole and (odd := [each for each in ASKED_OF_SCHEDULERS if given.get(each)]):
            flag = "--node" if odd[0] == "nodes" else f"--{odd[0].replace('_', '-')}"
            raise click.UsageError(f"{flag} is about pods, and {named[0]} is answered as a whole")
        if what_would_help or is_whole:
            where = (cluster, given.get("kubeconfig", ""), given.get("context", ""))
            printed = "json" if given.get("as_json") else output
            tell(
                given.get("pods", ()),
                given.get("namespace") or "",
                manifests,
                where,
                config_file,
                plugins,
                feature_gates,
                printed,
            )
            return
        if cluster or manifests or config_file or plugins or feature_gates:
            raise click.UsageError(
                "--cluster, -f, --config, --plugin and --feature-gates go with --what-would-help: add it, or "
                "leave them out to ask the scheduler"
            )
        if not (given.get("watch") or (given.get("server") and not given.get("kubeconfig"))):
            remedies = Remedies(given.get("kubeconfig", ""), given.get("context", ""), given.get("namespace") or "")
            click.get_current_context().meta[REMEDIES] = remedies
            click.get_current_context().meta[REFUSED] = remedies.refused
            if is_plugin(click.get_current_context()) and not any(given.get(each) for each in ASKED_OF_SCHEDULERS[1:]):
                _for_kubectl(partial(asks_the_scheduler, output=output, **given), remedies, output, given)
                return
        asks_the_scheduler(output=output, **given)

    extended = copy.copy(explain)
    extended.callback = either
    extended.params = [*explain.params, *_options()]
    return for_option(jobs_option(extended))


def _for_kubectl(
    ask_the_scheduler: Callable[[], Any], remedies: "Remedies", output: Output, given: Mapping[str, Any]
) -> None:
    """Have a scheduler of ours tell, where one is at work, and what would help; else read the cluster, and decide here.

    Raises `click.ClickException`.
    """
    from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse, UnknownPodError

    where = given["kubeconfig"], given["context"]
    pods, namespace = given["pods"], "" if given["all_namespaces"] else given["namespace"]
    try:
        queue = SchedulerInUse(SchedulerAddress(kubeconfig=where[0], context=where[1])).ask("/debug/queue", "its queue")
        ask_the_scheduler()
    except UnknownPodError:
        pass
    except click.ClickException as error:
        if not isinstance(error, click.UsageError) and not given["as_json"] and not is_structured(output):
            click.echo(
                "No scheduler of Berth's is at work here: the cluster is read, and decided about anew.", err=True
            )
        elif isinstance(error, click.UsageError):
            raise
    else:
        pending = {each["pod"] for each in queue.get("pods") or ()}
        if not given["as_json"] and not is_structured(output):
            for pod in chosen_by(pods, namespace).names:
                for line in remedies([pod.key]) if pod.key in pending else ():
                    click.echo(legible(line))
        return
    printed = "json" if given["as_json"] else output
    tell(pods, namespace, (), ((), *where), "", (), "", printed)


def _options() -> list[click.Option]:
    return [
        click.Option(
            ["--what-would-help"],
            is_flag=True,
            help="Look for the least changes of a pod, of its workload, of a node or of the cluster after which it "
            "fits; without a name, for all that is pending.",
        ),
        click.Option(
            ["--cluster"],
            multiple=True,
            metavar="FILE",
            help="With --what-would-help: the cluster, as `berth snapshot` or `kubectl get -o yaml|json` has written "
            "it; may be repeated, and may be a directory.",
        ),
        click.Option(
            ["-f", "--filename", "manifests"],
            multiple=True,
            metavar="FILE",
            help="With --what-would-help: the manifest of a pod or a workload, instead of POD.",
        ),
        click.Option(
            ["--config", "config_file"],
            default="",
            metavar="FILE",
            help="With --what-would-help: the scheduler's configuration, where it is not the one at work.",
        ),
        click.Option(
            ["--plugin", "plugins"],
            multiple=True,
            metavar="MODULE:CLASS|FILE.py:CLASS",
            help="With --what-would-help: a plugin that is not installed; may be repeated.",
        ),
        click.Option(
            ["--feature-gates"],
            default="",
            metavar="NAME=true,...",
            help="With --what-would-help: features of the scheduler to switch on or off.",
        ),
    ]


class Remedies:
    """Says what would help pods of the cluster of a kubeconfig; it is read, and searched, as far as is asked for.

    The cluster of a scheduler that is named need not be that of the kubeconfig in use: of such a one nothing is said.
    """

    __slots__ = ("_found", "_known", "_where")

    def __init__(self, kubeconfig: str, context: str, namespace: str) -> None:
        self._where = (kubeconfig, context, namespace)
        self._found: Iterator[Help] | None = None
        self._known: dict[str, Help] = {}

    def __call__(self, named: Sequence[str]) -> list[str]:
        """Return the changes that would help the first of some pods that any is known for."""
        from berth_workbench.planning.help.words import in_short, whether_ever
        from berth_workbench.simulation.watch import StoppedError

        with working(f"looking for what would help {named[0]}") as watch:
            try:
                if self._found is None:
                    self._found = self._searched(watch)
                while not self._known.keys() & set(named) and (found := next(self._found, None)) is not None:
                    self._known |= dict.fromkeys((found.pod, *found.pods), found)
            except (click.ClickException, UserError) as error:
                self._found = iter(())
                said = error.format_message() if isinstance(error, click.ClickException) else str(error)
                return [f"What would help is not known: {said}"]
            except StoppedError:
                self._found = iter(())
                return ["What would help is not known: it was stopped before the end"]
        found = next((self._known[pod] for pod in named if pod in self._known), None)
        if found is None:
            return []
        told = [what for what in (whether_ever(found), *(what for what, _ in in_short(found))) if what]
        # Pods that nothing makes are looked at one by one: what is enough for one need not be for those like it.
        whom = f"For {found.pod}: " if len(named) > 1 and not found.pods else ""
        return [f"{whom}{what}" for what in told]

    def refused(self, kind: str, key: str) -> str:
        """Say why the API server refuses the pods that a workload lacks; empty where it does not, or nobody knows."""
        from berth_workbench.cli.cluster_input import read_cluster_given
        from berth_workbench.planning.help.asked import lacking_of
        from berth_workbench.simulation.site import Site

        try:
            return lacking_of(Site.of(read_cluster_given((), *self._where[:2])), kind, key).why
        except (click.ClickException, UserError):
            return ""

    def _searched(self, watch: "WorkWatch") -> "Iterator[Help]":
        from berth_workbench.planning.help.search import help_for_all
        from berth_workbench.simulation.situation import Situation

        kubeconfig, context, namespace = self._where
        asked = read_asked((), kubeconfig, context)
        return help_for_all(Situation(asked.snapshot, asked.setup), watch, namespace)


class PermitAsked:
    """Asks the scheduler of a live cluster which members of a gang it holds at Permit."""

    __slots__ = ("_scheduler",)

    def __init__(self, kubeconfig: str, context: str) -> None:
        from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse

        self._scheduler = SchedulerInUse(SchedulerAddress(kubeconfig=kubeconfig, context=context))

    def __call__(self, cluster: "SimulatedCluster", pods: Sequence[str]) -> "HeldAtPermit | None":
        """Return who of some pods is held; None where nobody is, or no scheduler tells."""
        from berth.cli.scheduler_in_use import SchedulerQuestion
        from berth_workbench.planning.help.result import HeldAtPermit
        from berth_workbench.simulation.gangs import requested_by

        questions = [SchedulerQuestion(f"/debug/decisions/{quote(pod)}", pod) for pod in pods[:MEMBERS_ASKED]]
        try:
            answers = self._scheduler.ask_all(questions)
        except click.ClickException:
            return None
        said = [(pod, each["permit"]) for pod, each in zip(pods, answers, strict=False)
                if isinstance(each, dict) and each.get("permit")]  # fmt: skip
        until = min((held["until"] for _, permit in said for held in permit["heldBy"]), default="")
        held = tuple(pod for pod, _ in said)
        return HeldAtPermit(held, requested_by(cluster, held), until) if held else None


def tell(
    pods: Sequence[str],
    namespace: str,
    manifests: Sequence[str],
    where: tuple[Sequence[str], str, str],
    config_file: str,
    plugins: Sequence[str],
    feature_gates: str,
    output: Output,
) -> None:
    """Print what would help pods, or why claims have no devices. Raises `click.ClickException`, `UserError`."""
    from berth_workbench.planning.help.asked import NotThereError
    from berth_workbench.questions.explain import DOING, Explaining, HelpRequest
    from berth_workbench.simulation.situation import Situation
    from berth_workbench.simulation.watch import StoppedError

    if pods and manifests:
        raise click.UsageError("name a pod, or give its manifest with -f")
    documents = tuple(read_manifests(manifests, namespace or "default"))
    try:
        request = HelpRequest(tuple(pods), namespace, documents)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if manifests and not documents:
        raise click.ClickException(f"-f {' '.join(manifests)}: no pod and no workload in it")
    snapshot, _, setup, assumed = read_asked(*where, config_file, plugins, feature_gates)
    permit = PermitAsked(*where[1:]) if pods and not where[0] else None
    with working(DOING) as watch:
        try:
            explaining = Explaining(Situation(snapshot, setup), request, watch)
            _tell(explaining, namespace, output, assumed, permit)
        except StoppedError:
            raise EndedEarly(nothing_by_then()) from None
        except NotThereError as error:
            of_files = f"-f {' '.join(manifests)}: " if manifests else ""
            raise click.ClickException(f"{of_files}{error}") from None


def _tell(explaining: "Explaining", namespace: str, output: Output, assumed: str, permit: "PermitAsked | None") -> None:
    for note in explaining.notes:
        warn(note)
    if not is_structured(output):
        tell_assumed(assumed)
        if not explaining.count:
            click.echo(f"No pod{f' of namespace {namespace}' if namespace else ''} stays pending.")
    for number, found in enumerate(explaining.answers(permit)):
        if not is_structured(output):
            _print(found, output, is_first=not number)
    explained = explaining.so_far()
    if is_structured(output):
        one_or_all = explained.answers[0] if explaining.is_one and explained.answers else explained.answers
        print_structured(one_or_all, output, explained.names(), assumed=assumed)
    if not explained.is_complete:
        raise EndedEarly(found_by_then())


def _print(found: "Help | ClaimHelp", output: Output, *, is_first: bool) -> None:
    from berth.runtime.observing.logs import legible
    from berth_workbench.planning.help.claims import ClaimHelp, claim_lines
    from berth_workbench.planning.help.words import lines_of

    if not is_first:
        click.echo()
    width = console_for(output).width
    for line in claim_lines(found, width) if isinstance(found, ClaimHelp) else lines_of(found, width):
        click.echo(legible(line))
