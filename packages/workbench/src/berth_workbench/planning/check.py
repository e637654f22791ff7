"""Whether a change of manifests fits a cluster: `berth check`.

`check` applies the manifests of before to a cluster in memory, so that it is as it will be when the change arrives, and
then those of after: what is gone is deleted, what is new is created, and what has changed is scaled or rolled out. It
says of each workload that is touched how many of its pods have a place, who has to make way for them, what more nodes
would do, and which pods the loss of a zone would leave without a place that would have had one before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, NamedTuple

import msgspec

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import CPU, PODS, pod_requests
from berth.decisions.reasons import in_our_words
from berth.decisions.shortfall import Shortfall, amount, shortfalls
from berth_workbench.planning.dynamic_admission import unasked_about
from berth_workbench.planning.immutable_fields import why_unchangeable
from berth_workbench.planning.more_nodes import MoreNodes, cheapest_until_placed, kinds_of
from berth_workbench.planning.survival import loss_of
from berth_workbench.planning.whatif import (
    BUDGET_VIOLATED,
    DAEMON_DOES_NOT_FIT,
    NO_LONGER_RUNS,
    WhatIfResult,
    WhatIfRun,
    natural,
    why_pending,
)
from berth_workbench.simulation.budgets import TEMPLATE_HASH, Owner, is_active, workload_of
from berth_workbench.simulation.measures import is_pending, pending_pods, rows_by_zone
from berth_workbench.simulation.node_changes import add_nodes_like
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.rollouts import ROLLOUT_STUCK
from berth_workbench.simulation.site import LOST, Broken, Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Manifests, take_step
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.simulation.workloads import POD_MAKERS, WorkloadManifest
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.places import ManifestPlace, object_name
from berth_workloads.stateful_sets import REVISION_LABEL

Level = Literal["ok", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "error")
"""From good to bad."""
Fits = Literal["now", "afterPreemptions", "no"]
Difference = Literal["new", "changed", "gone", "unchanged"]


TOLD_BY_WORKLOAD = (ROLLOUT_STUCK, NO_LONGER_RUNS, DAEMON_DOES_NOT_FIT, LOST)
"""What breaks of pods, which the row of their workload tells."""
TRIES = 8
"""With so many more nodes at most it is tried whether a rollout gets through that pods alone would need fewer for."""


class CheckedWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload, or a pod without one, that the change touches or that pays for it."""

    kind: str
    name: str
    """`namespace/name`."""
    difference: Difference
    before: int
    """How many pods it had or wanted."""
    after: int
    """How many pods it wants."""
    placed: int
    """How many of these have a node; of a rollout, how many new ones."""
    refused: int = 0
    """How many the API server refuses, or never gets to see."""
    why: str = ""
    """Why the others have none, in the words of the scheduler or of the API server."""
    lacks: Shortfall | None = None
    """What nodes have too little of for the first pod without a node."""
    was_placed: int = 0
    """How many had a node before."""
    is_stuck: bool = False
    """Whether its rollout ends before all old pods could go."""
    level: Level = "ok"


class ZoneLoss(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that a workload would be left without by the loss of a zone, where it was fewer before the change."""

    zone: str
    kind: str
    name: str
    """`namespace/name`."""
    pods: int
    of: int
    """How many pods it has with a node."""
    before: int
    """How many pods the same loss would have cost it before."""


class CheckFinding(msgspec.Struct, frozen=True, rename="camel"):
    """Something to be told of one object."""

    level: Level
    kind: str
    name: str
    """`namespace/name`, or the name alone."""
    text: str
    file: str = ""
    """The manifest that says so after the change; empty where none does."""
    line: int = 0
    """Where it begins in the file, from 1; 0 where that is not known."""


class Check(msgspec.Struct, frozen=True, rename="camel"):
    """What a change of manifests comes to in a cluster."""

    verdict: Level
    fits: Fits
    """Whether all pods of what is touched have a node: at once, only since others make way, or not."""
    workloads: tuple[CheckedWorkload, ...]
    zones: tuple[ZoneLoss, ...] = ()
    findings: tuple[CheckFinding, ...] = ()
    """What is wrong or doubtful, the worst first."""
    requests: dict[str, str] = {}
    """How much more is requested, by resource, with its sign."""
    more: MoreNodes | None = None
    """What it takes so that pods without a node have one; null where all have."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def _name_of(document: Document, namespace: str) -> Owner:
    return object_name(document.kind, document.namespace or namespace, document.name)


def check(
    situation: Situation,
    base: Sequence[Document] | None,
    head: Sequence[Document],
    places: Mapping[Owner, ManifestPlace] | None = None,
    watch: WorkWatch = UNWATCHED,
) -> Check:
    """Return what it comes to when manifests change from `base` to `head`, of which `places` says where they are.

    Without a base, what the cluster has counts as such, and nothing is gone. Raises `ManifestError`, `ObjectError`,
    `ChangeError`, `StuckError`, `StoppedError`.
    """
    site = situation.untouched(watch)
    if pending_pods(site.cluster):
        site.settle()
    sides = _Sides.of(base, head, situation.namespace)
    notes = _apply_base(site, sides, situation.namespace)
    made = [each for each in sides.applied if not _is_there(site, each, situation.namespace)]
    words = unasked_about(situation.snapshot, made, situation.namespace)
    before, losses = _Census.of(site), _zone_losses(site, watch)
    with Rehearsal(site):
        step = Manifests(made, "the change", tuple(sides.gone))
        result = WhatIfRun(site).run((step,), situation.namespace, (*notes, *words))
        if not result.is_complete:
            raise StoppedError
        judge = _Judge(site, sides, before, result, places or {})
        rows = judge.rows()
        more, zones = judge.more(rows), tuple(judge.zones(losses, watch))
        # The change may bring the very nodes that more would be like; before it there are none of them.
        models = [site.cluster.objects["Node", each.like] for each in (more.nodes if more is not None else ())]
    if more is not None and any(each.is_stuck for each in rows):
        more = _enough_for_rollouts(site, step, situation.namespace, more, models)
    return judge.judged(rows, more, zones)


def worst(levels: Iterable[Level]) -> Level:
    """Return the worst of some levels."""
    return max(levels, key=LEVELS.index, default="ok")


# -- the two sides ---------------------------------------------------------------------------------------------------


class _Sides(NamedTuple):
    """What differs between the manifests of before and after."""

    base: Mapping[Owner, Document]
    head: Mapping[Owner, Document]
    applied: Sequence[Document]
    """Those of after that are new or have changed."""
    gone: Sequence[Document]
    refused: Mapping[Owner, str]
    """Why the API server does not take some of those that have changed."""
    touched: Set[Owner]
    """The workloads that are new, have changed or are gone."""

    @classmethod
    def of(cls, base: Sequence[Document] | None, head: Sequence[Document], namespace: str) -> "_Sides":
        """Compare them; of an object that is given several times the last counts."""
        was, now = ({_name_of(each, namespace): each for each in some} for some in (base or (), head))
        changed = {key: each for key, each in now.items() if key not in was or _said(was[key]) != _said(each)}
        refused = {
            key: why for key, each in changed.items() if key in was and (why := why_unchangeable(was[key], each))
        }
        gone = [each for key, each in was.items() if key not in now]
        gone += [each for key, each in changed.items() if each.kind == "CronJob" and key in was]  # one run takes turns
        touched = {key for key in (*changed, *(was.keys() - now.keys())) if key[0] in (*POD_MAKERS, "Pod")}
        return cls(was, now, [each for key, each in changed.items() if key not in refused], gone, refused, touched)

    def difference(self, key: Owner, *, is_there: bool) -> Difference:
        """Say what becomes of a workload that the cluster had or had not."""
        if key not in self.touched:
            return "unchanged"
        if key not in self.head:
            return "gone"
        return "changed" if key in self.base or is_there else "new"


def _said(document: Document) -> object:
    """Return what of a manifest could make a difference: labels of a workload itself do not."""
    manifest = document.manifest
    return manifest.get("spec") if document.kind in POD_MAKERS else {**manifest, "status": None}


def _apply_base(site: Site, sides: _Sides, namespace: str) -> list[str]:
    """Bring a cluster to what the manifests of before say; return notes about what that did not achieve.

    Runs of CronJobs come and go: those of before are taken to be over.
    """
    documents = [
        each for each in sides.base.values() if each.kind != "CronJob" and not _is_there(site, each, namespace)
    ]
    if not documents:
        return []
    take_step(site, Manifests(documents, "the manifests of before"), namespace)
    found = [f"before the change, {each.kind} {each.name} {in_our_words(each.message)}" for each in site.broken]
    site.broken.clear()
    return found


def _is_there(site: Site, document: Document, namespace: str) -> bool:
    """Whether a manifest is of a pod without a controller that the cluster has."""
    return document.kind == "Pod" and _name_of(document, namespace) in site.cluster.objects


# -- what became of them -----------------------------------------------------------------------------------------------


class _Census(NamedTuple):
    """The pods of a cluster that have not ended, by what makes them: kind and `namespace/name`."""

    pods: Mapping[Owner, Sequence[Pod]]
    owners: Mapping[str, Owner]
    """By the pod's `namespace/name`."""

    @classmethod
    def of(cls, site: Site) -> "_Census":
        found: defaultdict[Owner, list[Pod]] = defaultdict(list)
        owners: dict[str, Owner] = {}
        for pod in filter(is_active, site.cluster.of(Pod)):
            owners[pod.key] = owner = _owner_of(site, pod)
            found[owner].append(pod)
        return cls(found, owners)

    def placed(self, owner: Owner) -> int:
        """How many pods of a workload have a node."""
        return sum(bool(pod.spec.node_name) for pod in self.pods.get(owner, ()))


def _owner_of(site: Site, pod: Pod) -> Owner:
    return workload_of(pod, site.cluster.objects) or ("Pod", pod.key)


def _zone_losses(site: Site, watch: WorkWatch) -> dict[str, Counter[Owner]]:
    """Return how many pods of each workload have no place when a zone is lost, by zone.

    Where all nodes are in one, nothing is lost: there would be no cluster.
    """
    table = site.cluster.core.cache.table
    rows = {zone: rows.tolist() for zone, rows in rows_by_zone(table).items() if zone}
    groups = {zone: [table.names[row] for row in of] for zone, of in rows.items() if len(of) < len(table.rows())}
    found: dict[str, Counter[Owner]] = {zone: Counter() for zone in sorted(groups, key=natural)}
    for failure in loss_of(site, groups, counts_nodes=False, watch=watch.within()):
        for lost in failure.lost:
            kind, _, name = lost.workload.partition(" ")
            found[failure.names[0]][kind, name] += lost.pods
    watch.check()
    return found


class _Judge:
    """Says what a change has come to in a cluster."""

    __slots__ = ("_after", "_before", "_places", "_refusals", "_result", "_sides", "_site", "_stuck", "_victims")

    def __init__(
        self, site: Site, sides: _Sides, before: _Census, result: WhatIfResult, places: Mapping[Owner, ManifestPlace]
    ) -> None:
        self._site, self._sides, self._before = site, sides, before
        self._result, self._places, self._after = result, places, _Census.of(site)
        known = {**self._before.owners, **self._after.owners}
        preempted = (each for each in result.evicted if each.is_preempted)
        self._victims = Counter((known.get(each.pod, ("Pod", each.pod)), known.get(each.by)) for each in preempted)
        """How often a pod of one workload had to make way for one of another."""
        self._refusals: defaultdict[Owner, list[str]] = defaultdict(list)
        """By what makes the pods: why the API server refuses them, for each of those that it refuses."""
        for each in site.cluster.refused.values():
            self._refusals[_owner_of(site, each.pod)].append(each.why)
        self._stuck = {(each.kind, each.name): each.message for each in result.broken if each.reason == ROLLOUT_STUCK}

    def judged(self, rows: Sequence[CheckedWorkload], more: MoreNodes | None, zones: tuple[ZoneLoss, ...]) -> Check:
        """Return the answer. The cluster may be as it was before by then."""
        broken = [each for each in self._result.broken if each.reason not in TOLD_BY_WORKLOAD]
        findings = [
            *self._of_rows(rows, more),
            *(self._finding(_level_of(each), (each.kind, each.name), _in_words(each)) for each in broken),
            *(
                self._finding("error", key, f"the API server refuses to change {key[0]} {key[1]}: {why}")
                for key, why in self._sides.refused.items()
                if key not in self._sides.touched
            ),
            *self._of_victims(rows),
            *self._of_zones(zones),
        ]
        findings.sort(key=lambda each: -LEVELS.index(each.level))
        is_short = "error" in {*(each.level for each in rows), *map(_level_of, broken)}
        makes_room = any(victim != by for victim, by in self._victims)
        return Check(
            verdict=worst(each.level for each in findings),
            fits="no" if is_short else "afterPreemptions" if makes_room else "now",
            workloads=tuple(rows),
            zones=zones,
            findings=tuple(findings),
            requests=_requests(rows, self._before, self._after),
            more=more,
            notes=self._result.notes,
        )

    # -- workload by workload --------------------------------------------------------------------------------------

    def rows(self) -> list[CheckedWorkload]:
        """Return what is touched, and what has fewer pods with a node by it, in the order of the names."""
        losers = {each for each in self._before.pods if self._after.placed(each) < self._before.placed(each)}
        runs = {_made_by(key) for key in self._sides.touched}
        found: list[CheckedWorkload] = []
        for key in sorted(self._sides.touched | (losers - runs), key=lambda key: (natural(key[1]), key[0])):
            row = self._row(key)
            if self._sides.base or row.difference != "changed" or not self._is_as_before(key):
                found.append(row)
        return found

    def _is_as_before(self, key: Owner) -> bool:
        """Whether a workload has the very pods that it had: where one side is given, that shows what is unchanged."""
        was, now = (
            {pod.metadata.uid for pod in census.pods.get(_made_by(key), ())} for census in (self._before, self._after)
        )
        return was == now and key not in self._sides.refused and _made_by(key) not in self._refusals

    def _row(self, key: Owner) -> CheckedWorkload:
        sides, owner = self._sides, _made_by(key)
        was, now = self._before.pods.get(owner, ()), self._after.pods.get(owner, ())
        refused = self._refusals.get(owner, ())
        manifest, stuck = sides.head.get(key), self._stuck.get(key)
        before = _wanted(sides.base.get(key), len(was))
        if key not in sides.touched or key in sides.refused:
            after = before
        else:
            after = _wanted(manifest, len(now) + len(refused)) if manifest is not None else 0
        counted = _newest(now, manifest, is_stuck=stuck is not None) if key in sides.touched else now
        placed = sum(bool(pod.spec.node_name) for pod in counted)
        pending = next((pod for pod in counted if is_pending(pod)), None)
        why = sides.refused.get(key) or next(iter(refused), "")
        lacks = None
        if not why and pending is not None:
            lacks, why = self._lack(pending), why_pending(self._site.cluster, pending)
        if not why and stuck is not None:
            why = stuck
        was_placed = self._before.placed(owner)
        missed = before - was_placed
        level: Level = "ok"
        if key in sides.refused or stuck is not None or after - placed > (missed if key in sides.touched else 0):
            level = "error"
        elif after > placed:
            level = "warning"
        return CheckedWorkload(
            kind=key[0],
            name=key[1],
            difference=sides.difference(key, is_there=bool(was)),
            before=before,
            after=after,
            placed=placed,
            refused=max(after - len(counted), 0) if refused else 0,
            why=why,
            lacks=lacks,
            was_placed=was_placed,
            is_stuck=stuck is not None,
            level=level,
        )

    def _lack(self, pod: Pod) -> Shortfall | None:
        """Return of what most nodes have too little for a pod; None where amounts are not what it lacks."""
        core = self._site.cluster.core
        decision = core.trace.get(pod.key)
        if decision is None or decision.pod.uid != pod.metadata.uid or decision.chosen is not None:
            return None
        profile = core.profiles.get(decision.profile)
        return max(shortfalls(decision, core.cache.table, profile), key=lambda each: each.nodes, default=None)

    # -- what it would take, and what it would cost ------------------------------------------------------------------

    def more(self, rows: Sequence[CheckedWorkload]) -> MoreNodes | None:
        """Return what more nodes would do for the pods of these workloads that have none, if there are any."""
        site, owners = self._site, {_made_by((each.kind, each.name)) for each in rows if each.level == "error"}

        def wanting() -> list[Pod]:
            return [pod for pod in pending_pods(site.cluster) if _owner_of(site, pod) in owners]

        if not owners or not wanting():
            return None
        return cheapest_until_placed(site, kinds_of(site.cluster.of(Node)), wanting).more

    def zones(self, before: Mapping[str, Counter[Owner]], watch: WorkWatch) -> Iterator[ZoneLoss]:
        """Yield where the loss of a zone costs more than before. Raises `StoppedError`."""
        for zone, losses in _zone_losses(self._site, watch).items():
            for owner, pods in losses.items():
                was = before.get(zone, Counter())[owner]
                if pods > was:
                    yield ZoneLoss(zone, *owner, pods, self._after.placed(owner), was)

    # -- in words ----------------------------------------------------------------------------------------------------

    def _finding(self, level: Level, key: Owner, text: str) -> CheckFinding:
        place = self._places.get(key, ManifestPlace("", 0))
        return CheckFinding(level, *key, text, place.file, place.line)

    def _of_rows(self, rows: Sequence[CheckedWorkload], more: MoreNodes | None) -> Iterator[CheckFinding]:
        bad = [each for each in rows if each.level != "ok"]
        names = Counter(each.name for each in bad)
        short = [each for each in bad if each.level == "error"]
        for row in bad:
            text = _row_in_words(row, is_alone=names[row.name] == 1)
            if more is not None and [row] == short:
                text += f". {_more_in_words(more, is_rollout=row.is_stuck)}"
            yield self._finding(row.level, (row.kind, row.name), f"{text}.")
        if more is not None and len(short) > 1:
            yield CheckFinding("error", "", "", f"{_more_in_words(more)}.")

    def _of_zones(self, zones: Iterable[ZoneLoss]) -> Iterator[CheckFinding]:
        """Tell the worst loss of each workload that is touched, and that which costs all others most in one line."""
        touched = [each for each in zones if (each.kind, each.name) in self._sides.touched]
        for each in _worst_of_each(touched):
            yield self._finding("warning", (each.kind, each.name), _zone_in_words(each))
        others: dict[str, list[ZoneLoss]] = {}
        for each in zones:
            if (each.kind, each.name) not in self._sides.touched:
                others.setdefault(each.zone, []).append(each)
        if others:
            losses = max(others.values(), key=lambda some: sum(each.pods - each.before for each in some))
            first = losses[0]
            text = _zone_in_words(first)
            if len(losses) > 1:
                more = sum(each.pods - each.before for each in losses)
                whom = f"{len(losses):,} other workloads, such as {first.name}"
                text = f"losing {first.zone} would then leave {whom}, without {more:,} pods more than before"
            yield CheckFinding("warning", first.kind, first.name, text)

    def _of_victims(self, rows: Sequence[CheckedWorkload]) -> Iterator[CheckFinding]:
        """Tell who makes way and has a place all the same; who has none has a row."""
        losing = {(each.kind, each.name) for each in rows if each.level == "error"}
        for (victim, by), times in self._victims.items():
            if by is not None and victim not in losing and victim != by:
                pods = "a pod" if times == 1 else f"{times:,} pods"
                text = f"{by[1]} takes the place of {pods} of {victim[1]}; there is another place for everyone."
                yield self._finding("warning", by, text)


def _requests(rows: Iterable[CheckedWorkload], before: _Census, after: _Census) -> dict[str, str]:
    changed: Counter[str] = Counter()
    for row in rows:
        if row.difference != "unchanged":
            owner = _made_by((row.kind, row.name))
            for census, sign in ((before, -1), (after, 1)):
                for pod in census.pods.get(owner, ()):
                    for name, count in pod_requests(pod).items():
                        changed[name] += sign * count
    ordered = sorted((name for name in changed if changed[name] and name != PODS), key=_usual_first)
    return {name: f"{'+' if changed[name] > 0 else ''}{amount(name, changed[name])}" for name in ordered}


def _enough_for_rollouts(
    site: Site, step: Manifests, namespace: str, more: MoreNodes, models: Sequence[Node]
) -> MoreNodes | None:
    """Return with how many more nodes rollouts get through, from those on that their pods so far need; None if unknown.

    A rollout makes further pods once these have a place. Each number is tried with the nodes there from the start.
    `models` are what the nodes of `more` are like.
    """
    if more.left or len(more.nodes) != 1:
        return None
    (added,), (model,) = more.nodes, models
    for count in range(added.count, added.count + TRIES):
        with Rehearsal(site):
            pending = len(pending_pods(site.cluster))
            add_nodes_like(site, model, count)
            seen = len(site.broken)
            take_step(site, step, namespace)
            is_through = all(each.reason != ROLLOUT_STUCK for each in site.broken[seen:])
            if is_through and len(pending_pods(site.cluster)) <= pending:
                return msgspec.structs.replace(more, nodes=(msgspec.structs.replace(added, count=count),))
    return None


def _made_by(key: Owner) -> Owner:
    """Return what makes the pods of a workload: of a CronJob, a Job that has its name here."""
    return ("Job", key[1]) if key[0] == "CronJob" else key


def _wanted(document: Document | None, pods: int) -> int:
    """Return how many pods a manifest wants; where it does not say, as many as there are."""
    if document is None or document.kind not in POD_MAKERS:
        return pods
    manifest = WorkloadManifest(document, document.namespace or "default")
    is_said = document.kind in ("Job", "CronJob") or manifest.spec.get("replicas") is not None
    return manifest.replicas if is_said and manifest.replicas is not None else pods


def _newest(pods: Sequence[Pod], document: Document | None, *, is_stuck: bool) -> Sequence[Pod]:
    """Return the pods that a manifest has made where they are those of a rollout, else all."""
    if document is None or document.kind not in POD_MAKERS:
        return pods
    made = WorkloadManifest(document, document.namespace or "default").template_hash
    labels = (TEMPLATE_HASH, REVISION_LABEL)
    new = [pod for pod in pods if made in (pod.metadata.labels.get(label) for label in labels)]
    return new if new or (is_stuck and document.kind == "Deployment") else pods


def _usual_first(name: str) -> tuple[bool, bool, str]:
    return name != CPU, name != "memory", name


def _level_of(broken: Broken) -> Level:
    """Say how bad it is: a budget that has fewer healthy pods than it demands keeps others from going, and no more."""
    return "warning" if broken.reason == BUDGET_VIOLATED else "error"


def _in_words(broken: Broken) -> str:
    return f"{broken.kind} {broken.name} {in_our_words(broken.message)}."


def _row_in_words(row: CheckedWorkload, *, is_alone: bool) -> str:
    """Say how many pods of a workload have a place, and why the others have none."""
    name = row.name if is_alone else f"{row.kind} {row.name}"
    size = f"{name} {row.before} → {row.after}" if row.before != row.after else f"{name} {row.after}"
    pending = row.after - row.placed - row.refused
    if row.difference == "unchanged":
        lost = f"{name} loses {row.was_placed - row.placed} of {row.was_placed} pods to others"
        return f"{lost}: {_lack_in_words(row, pending)}" if pending > 0 else lost
    placed = f"{row.placed or 'none'} {'have' if row.placed > 1 else 'has'} a place"
    if row.refused:
        return f"{size}: {placed}; the API server refuses {row.refused}: {row.why}"
    if row.placed >= row.after or pending <= 0 or (row.is_stuck and row.lacks is None and not row.why):
        return f"{size}: {in_our_words(row.why)}"
    if row.is_stuck:
        return f"{size}: the rollout is stuck when {placed}; the next one{_lack_in_words(row, 1).removeprefix('1')}"
    return f"{size}: {placed}; {_lack_in_words(row, pending)}"


def _lack_in_words(row: CheckedWorkload, pods: int) -> str:
    lacks = row.lacks
    if lacks is None or lacks.request:
        return f"{pods} {'has' if pods == 1 else 'have'} none: {in_our_words(row.why).rstrip('.')}"
    what = lacks.resource if lacks.resource != CPU else "CPU"
    needs = "room for one more pod on a node" if lacks.resource == PODS else f"{lacks.needs} {what}"
    return f"{pods} {'lacks' if pods == 1 else 'lack'} {needs}"


def _more_in_words(more: MoreNodes, *, is_rollout: bool = False) -> str:
    if not more.nodes:
        return "No more nodes like those there are would help"
    nodes = [f"{each.count} more {'node' if each.count == 1 else 'nodes'} like {each.like}" for each in more.nodes]
    takes = "takes" if sum(each.count for each in more.nodes) == 1 else "take"
    if is_rollout:
        return f"With {' and '.join(nodes)} it gets through"
    whom = f"{more.placed} of them" if more.left else "it" if more.placed == 1 else "them"
    return f"{' and '.join(nodes)} {takes} {whom}"


def _worst_of_each(losses: Iterable[ZoneLoss]) -> Iterable[ZoneLoss]:
    """Return of each workload the zone whose loss costs it most."""
    found: dict[Owner, ZoneLoss] = {}
    for loss in losses:
        worst_yet = found.setdefault((loss.kind, loss.name), loss)
        if loss.pods > worst_yet.pods:
            found[loss.kind, loss.name] = loss
    return found.values()


def _zone_in_words(loss: ZoneLoss) -> str:
    before = f"{loss.before}" if loss.before else "none"
    return f"losing {loss.zone} would then leave {loss.name} without {loss.pods} of {loss.of} (before: {before})"
