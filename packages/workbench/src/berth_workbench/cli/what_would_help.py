"""`berth explain [POD]... --what-would-help`: the least changes after which pending pods fit, each tried.

The cluster is read from files or through a kubeconfig, into memory; nothing in it is changed. Asked about are pods or
workloads of the cluster, what a manifest makes, or without a name all that is pending: of each workload once.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click
import msgspec

from berth.api.user_error import UserError
from berth.cli.chosen_pods import CLAIM, PODGROUP, NamedWhole, chosen_by, whole_named
from berth.cli.explain import REFUSED, REMEDIES
from berth.cli.known_names import KnownPods
from berth.cli.kubectl import is_plugin
from berth.cli.option_rules import never_with
from berth.cli.output import Output, console_for, is_structured, print_structured
from berth.cli.setup import warn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import AskedCluster, read_asked, tell_assumed
from berth_workbench.cli.cluster_input import read_manifests
from berth_workbench.cli.progress import EndedEarly, for_option, found_by_then, jobs_option, nothing_by_then, working

if TYPE_CHECKING:
    from berth.api.pod import Pod
    from berth_workbench.planning.help.result import HeldAtPermit, Help
    from berth_workbench.simulation.cluster import SimulatedCluster
    from berth_workbench.simulation.site import Site
    from berth_workbench.simulation.watch import WorkWatch
    from berth_workbench.simulation.workloads import WorkloadManifest
    from berth_workbench.snapshot.documents import Document
    from berth_workbench.snapshot.snapshot import Snapshot

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
    """Print what would help pods. Raises `click.ClickException`."""
    from berth_workbench.simulation.watch import StoppedError

    if pods and manifests:
        raise click.UsageError("name a pod, or give its manifest with -f")
    asked_cluster = read_asked(*where, config_file, plugins, feature_gates)
    with working("looking for what would help") as watch:
        try:
            held = None if where[0] or manifests else PermitAsked(*where[1:])
            _tell(asked_cluster, pods, namespace, manifests, output, watch, held)
        except StoppedError:
            raise EndedEarly(nothing_by_then()) from None


def _tell(
    asked_cluster: AskedCluster,
    pods: Sequence[str],
    namespace: str,
    manifests: Sequence[str],
    output: Output,
    watch: "WorkWatch",
    permit: "PermitAsked | None",
) -> None:
    from berth_workbench.planning.dynamic_admission import unasked_about
    from berth_workbench.planning.ends import KnownEnds
    from berth_workbench.planning.help.result import Help
    from berth_workbench.planning.help.search import stay_pending, what_would_help
    from berth_workbench.simulation.processes import spread
    from berth_workbench.simulation.site import Site

    snapshot, _, setup, assumed = asked_cluster
    site = Site.of(snapshot, setup, watch=watch)
    cluster = site.cluster
    wholes = [whole_named(each, namespace or "default") for each in pods]
    claims = [each.key for each in wholes if each is not None and each.kind == CLAIM]
    if claims:
        if len(claims) < len(pods):
            raise click.UsageError("a claim has an answer of its own: ask about pods and groups by themselves")
        _tell_claims(site, snapshot, claims, output, assumed, watch)
        return
    asked: Sequence[Pod | Help]
    notes: tuple[str, ...] = ()
    if manifests:
        documents = read_manifests(manifests, namespace or "default")
        asked = list(_of_manifests(cluster, snapshot, documents, " ".join(manifests), namespace or "default"))
        notes = unasked_about(snapshot, documents, namespace or "default")
    elif pods:
        asked = [each for pod in pods for each in _of(site, snapshot, pod, namespace or "default")]
    else:
        asked = [cluster.objects["Pod", key] for key in stay_pending(site, namespace)]
    ending = KnownEnds(snapshot.documents).in_words(cluster.pods.values())

    def search(number: int) -> Help:
        one = asked[number]
        if isinstance(one, Help):
            return one
        found = what_would_help(
            cluster, one, documents=snapshot.documents, is_there=not manifests, ending=ending, watch=watch.within()
        )
        return msgspec.structs.replace(found, notes=(*found.notes, *notes)) if notes else found

    if not is_structured(output):
        tell_assumed(assumed)
        if not asked:
            click.echo(f"No pod{f' of namespace {namespace}' if namespace else ''} stays pending.")
    watch.begin("looking for what would help", len(asked))
    answers: dict[int, Help] = {}
    told = 0
    for number, answer in spread(search, len(asked), watch):
        if permit is not None and answer.group and pods:
            answer = msgspec.structs.replace(answer, held=permit(cluster, answer.pods))
        answers[number] = answer
        watch.advance()
        while told in answers and not is_structured(output):
            _print(answers[told], output, is_first=not told)
            told += 1
    found = [answers[number] for number in sorted(answers)]
    if is_structured(output):
        is_one = len(found) == 1 and bool(pods or manifests)
        print_structured(found[0] if is_one else found, output, (each.pod for each in found), assumed=assumed)
    if watch.is_stopped and (len(found) < len(asked) or not all(each.is_complete for each in found)):
        raise EndedEarly(found_by_then())


def _tell_claims(
    site: "Site", snapshot: "Snapshot", keys: Sequence[str], output: Output, assumed: str, watch: "WorkWatch"
) -> None:
    from berth.runtime.observing.logs import legible
    from berth_workbench.planning.help.claims import claim_lines, explain_claim
    from berth_workbench.planning.help.search import what_would_help

    answers = []
    for key in keys:
        found = explain_claim(site.cluster, key)
        pod = site.cluster.objects["Pod", found.pods[0]] if found.pods else None
        if pod is not None and not pod.spec.node_name and not found.report.allocated:
            told = what_would_help(site.cluster, pod, documents=snapshot.documents, watch=watch.within())
            found = msgspec.structs.replace(found, help=told)
        answers.append(found)
    if is_structured(output):
        one = answers[0] if len(answers) == 1 else answers
        print_structured(one, output, (each.claim for each in answers), assumed=assumed)
        return
    tell_assumed(assumed)
    for number, each in enumerate(answers):
        if number:
            click.echo()
        for line in claim_lines(each, console_for(output).width):
            click.echo(legible(line))


def _print(found: "Help", output: Output, *, is_first: bool) -> None:
    from berth.runtime.observing.logs import legible
    from berth_workbench.planning.help.words import lines_of

    if not is_first:
        click.echo()
    for line in lines_of(found, console_for(output).width):
        click.echo(legible(line))


def _of(site: "Site", snapshot: "Snapshot", name: str, namespace: str) -> "list[Pod | Help]":
    whole = whole_named(name, namespace)
    if whole is not None:
        return _of_whole(site, snapshot, whole)
    chosen, cluster = chosen_by([name], namespace), site.cluster
    for resource, of_namespace, workload in chosen.workloads:
        return [_of_workload(site, resource.kind, f"{of_namespace}/{workload}")]
    ((namespace, name, _),) = chosen.names
    found: Pod | None = cluster.objects.get(("Pod", f"{namespace}/{name}"))
    if found is None:
        pending = sorted(pod.key for pod in cluster.pods.values() if not pod.spec.node_name)
        few = f"; its pending pods are {', '.join(pending[:5])}{' …' if len(pending) > 5 else ''}" if pending else ""
        hint = KnownPods(tuple(cluster.pods)).hint(f"{namespace}/{name}") or few
        raise click.ClickException(f"there is no pod {namespace}/{name} in the cluster{hint}")
    return [found]


def _of_whole(site: "Site", snapshot: "Snapshot", whole: NamedWhole) -> "list[Pod | Help]":
    """Return, of each PodGroup that is meant, a pending pod, or what is to be said where none is helped as a whole."""
    from berth.api.near_names import nearest
    from berth_workbench.simulation.gangs import groups_of_workload

    if whole.kind == PODGROUP:
        return [_of_group(site.cluster, whole.key)]
    keys = groups_of_workload(site.cluster, snapshot.of(PODGROUP), whole.key)
    if keys is None:
        hint = nearest(whole.key, [key for kind, key in site.cluster.objects if kind == whole.kind])
        raise click.ClickException(f"there is no {whole.kind} {whole.key} in the cluster{hint}")
    if not keys:
        raise click.ClickException(f"no PodGroup has been made of {whole.kind} {whole.key}, so nothing is placed")
    return [_of_group(site.cluster, key) for key in keys]


def _of_group(cluster: "SimulatedCluster", key: str) -> "Pod | Help":
    from berth.api.near_names import nearest
    from berth.api.pod import Pod
    from berth_workbench.planning.help.result import Help
    from berth_workbench.planning.whatif import NO_GROUPS
    from berth_workbench.simulation.gangs import group_keys, group_named

    found, title = group_named(cluster, key), f"{PODGROUP}/{key}"
    if found is None:
        known = {each for pod in cluster.of(Pod) for each in group_keys(pod)}
        known |= {name for kind, name in cluster.objects if kind == PODGROUP}
        few = f"; there are {', '.join(sorted(known)[:5])}" if known else ""
        raise click.ClickException(f"there is no PodGroup {key}{nearest(key, known) or few}")
    if not found.pods:
        return Help("", "pending", "none of its pods is there yet", group=title, replicas=0)
    if found.gang is None and found.is_declared:
        why = "it is no gang by its policy" if cluster.core.schedules_groups else NO_GROUPS
        warn(f"PodGroup {key}: {why}, so its pods are placed one by one")
    pending = next((pod for pod in found.pods if not pod.spec.node_name), None)
    if pending is not None:
        return pending
    gang = found.gang
    needed, count = (None, len(found.pods)) if gang is None else (gang.needed, gang.placed)
    message = "all of its pods run, and need no help"
    return Help(found.pods[0].key, "runs", message, group=title, replicas=count, needed=needed, have_place=count)


def _of_workload(site: "Site", kind: str, key: str) -> "Pod | Help":
    """Return a pending pod of a workload, or what is to be said where it has none."""
    from berth.api.near_names import nearest
    from berth_workbench.planning.help.result import Help

    pods = _pods_by_owner(site)
    made = pods.get((kind, key), ())
    refusal = str(lacking_of(site, kind, key, len(made)))
    if not made and refusal:
        raise click.ClickException(f"{kind} {key} has no pods: {refusal}")
    if not made:
        hint = nearest(key, [name for of_kind, name in pods if of_kind == kind])
        raise click.ClickException(f"{kind} {key} has no pods in the cluster{hint or '; -f asks about its manifest'}")
    pending = next((pod for pod in made if not pod.spec.node_name), None)
    if pending is not None:
        if refusal:
            warn(f"{kind} {key}: {refusal}")
        return pending
    manifest = site.manifest(kind, key)
    wanted = 0 if manifest is None else _wanted(manifest, len(made))
    message = "all that its controller has made run, and need no help"
    if refusal:
        message = f"{refusal}; {message}"
    elif wanted > len(made):
        message += f"; it has made {len(made)} of {wanted}, and its events say why not more"
    return Help(made[0].key, "runs", message, workload=f"{kind}/{key}", replicas=len(made))


class LackingPods(NamedTuple):
    """How many of its pods a workload wants and lacks, and why the API server refuses them; empty where it may not."""

    wanted: int
    lacking: int
    why: str

    def __str__(self) -> str:
        return f"the API server refuses {self.lacking} of its {self.wanted} pods: {self.why}" if self.why else ""


def lacking_of(site: "Site", kind: str, key: str, made: int | None = None) -> LackingPods:
    """Return what a workload lacks that has made so many pods which have not ended; those of the site by default."""
    from berth_workbench.simulation.admission import AdmissionGate

    manifest = site.manifest(kind, key)
    if made is None:
        made = len(_pods_by_owner(site).get((kind, key), ()))
    wanted = 0 if manifest is None else _wanted(manifest, made)
    if manifest is None or wanted <= made:
        return LackingPods(wanted, 0, "")
    _, why = AdmissionGate(site.cluster.admission).let_in(manifest.template)
    return LackingPods(wanted, wanted - made, why)


def _wanted(manifest: "WorkloadManifest", made: int) -> int:
    """Return how many pods a workload wants now: a Job none that have succeeded, and none at all once it has ended."""
    from berth_workloads.jobs import JobBounds, wanted_pods

    replicas = manifest.replicas or 0
    if manifest.kind != "Job":
        return replicas
    status = manifest.document.manifest.get("status") or {}
    ended = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    if ended & {"Complete", "Failed"}:
        return 0
    return wanted_pods(JobBounds(replicas, manifest.spec.get("completions")), made, status.get("succeeded") or 0)


def _pods_by_owner(site: "Site") -> "dict[tuple[str, str], list[Pod]]":
    """Return the pods that have not ended, by what owns them: a Deployment's also by that."""
    from berth_workbench.simulation.budgets import is_active, owner_of, workload_of

    pods = dict[tuple[str, str], list["Pod"]]()
    for pod in filter(is_active, site.cluster.pods.values()):
        for owner in {owner_of(pod), workload_of(pod, site.cluster.objects)}:
            if owner is not None:
                pods.setdefault(owner, []).append(pod)
    return pods


def _of_manifests(
    cluster: "SimulatedCluster", snapshot: "Snapshot", documents: "Sequence[Document]", files: str, namespace: str
) -> "Iterator[Pod]":
    """Yield a pod for each pod and each workload of manifests; what goes with them is put into the cluster."""
    from berth_workbench.planning.help.group import groups_of
    from berth_workbench.simulation.workloads import claim_templates, expand

    templates = claim_templates(snapshot.of("ResourceClaimTemplate"))
    nodes = tuple(cluster.nodes.values())
    expansion = expand(documents, nodes=nodes, templates=templates, namespace=namespace)
    cluster.add(expansion.objects)
    for name in expansion.passed_over:
        warn(f"{name} does not matter to decisions, and is passed over")
    if not expansion.pods:
        raise click.ClickException(f"-f {files}: no pod and no workload in it")
    known = set(groups_of(cluster, cluster.pods.values()))
    for owner, pods in groups_of(cluster, expansion.pods).items():
        if owner not in known:  # of one that the cluster has, a pod more is asked about
            cluster.create(pods)
        refused = [pod for pod in pods if pod.key in cluster.refused]
        if refused:
            why = cluster.refused[refused[0].key].why
            what = f"the API server refuses {len(refused)} of the {len(pods)} pods, of which {refused[0].key}: {why}"
            if len(refused) == len(pods):
                raise click.ClickException(f"-f {files}: {what}")
            warn(what)
        yield next(pod for pod in pods if pod.key not in cluster.refused)
