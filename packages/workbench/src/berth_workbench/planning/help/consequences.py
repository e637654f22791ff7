"""What a proposal comes to on the whole cluster: carried out, with controllers and the scheduler, and taken back.

All pods of the workload, or of the gang, get the change as its controller brings it to them, pods that are deleted are
made again, whoever has more priority evicts others, and the pods that wait beside them are tried as well. So it shows
whether all get a place, and who pays for it. The filters are asked first, about one pod, which is quick.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import msgspec

from berth.api.codec import ObjectError
from berth.api.dra import ResourceClaim
from berth.api.node import Node
from berth.api.pod import Pod
from berth.state.objects import key_of
from berth_workbench.planning.help.filters import FilterQuestions
from berth_workbench.planning.help.group import Group, group_of, make_missing
from berth_workbench.planning.help.patches import document_of
from berth_workbench.planning.help.proposals import (
    Proposal,
    ProposedStep,
    more_unavailable,
    pods_deleted,
    pods_moved,
)
from berth_workbench.planning.help.result import SMALLER, Change, Part
from berth_workbench.planning.help.standing import GangPart, StandingMembers
from berth_workbench.planning.rebalance.movability import local_volumes
from berth_workbench.planning.room_by_moving import MoveSearch, Together, moved
from berth_workbench.planning.whatif import natural
from berth_workbench.simulation.admission import UnknownPriorityClassError, with_priority
from berth_workbench.simulation.budgets import is_active, is_daemon, is_mirror, owner_of, workload_of
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.claims import made_claims
from berth_workbench.simulation.cluster import BACKOFF_S, StuckError, pending_again
from berth_workbench.simulation.daemons import pinned, pinned_to
from berth_workbench.simulation.gangs import declared_gang
from berth_workbench.simulation.node_changes import add_nodes_like
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.rollouts import roll_out
from berth_workbench.simulation.scale import find_by_key, scale
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from berth_workbench.simulation.workloads import ManifestError, WorkloadManifest
from berth_workbench.snapshot.documents import Document
from berth_workloads.stateful_sets import ordinal_of

LOOK_EVERY = 32
"""After so many attempts of the scheduler it is asked whether somebody wants the search to end."""
MOST_ATTEMPTS = 40_000
"""So many attempts of the scheduler a search may take."""
PARTS_CLEARED = 6
"""So many parts of the cluster are tried to be cleared for a gang that has to keep to one of them."""
MOVES_TRIED = 40
"""So often a node is looked at, or moves from it are made, to make room."""
LEFT_COST = 5.0
"""What it costs that another pod has no place then, though it is less important."""
MOVED_COST = 1.0
NOT_ASKED = frozenset({"priority", "replicas", "podsMoved"})
"""Of proposals of these kinds the filters say nothing: it is the scheduler that makes room, or nobody changes."""


class _Attempts(WorkWatch):
    """Hands on how many pods are tried."""

    def __init__(self, count: Callable[[int], None]) -> None:
        super().__init__()
        self._count = count

    def advance(self, steps: int = 1) -> None:
        self._count(steps)


class Consequences:
    """Tries changes on a cluster where nothing else happens: whoever waits beside the group has been tried before."""

    __slots__ = ("_attempts", "_base", "_besides", "_documents", "_filters", "_importance", "_site", "_standing",
                 "group", "placed")  # fmt: skip

    def __init__(self, filters: FilterQuestions, documents: Iterable[Document]) -> None:
        """`documents` are those that the cluster was made of, as far as they are known: workloads are among them."""
        self._filters = filters
        documents = list(documents)
        self._documents = documents
        self._site = Site(filters.cluster, documents, watch=_Attempts(self._count))
        self._attempts = 0
        self._importance = 0
        self._besides: tuple[Part, ...] = ()
        """What has to be done in this trial so that a rollout goes on."""
        self._base: dict[str, str] = {}
        """Where other pods come to be even if nothing is changed, as far as that is not where they are."""
        self.group = Group(Pod())
        """Whom the question is about; those that get a node by themselves count as running."""
        self.placed: dict[str, str] = {}
        """The pods of the group that get a node by themselves."""
        self._standing: StandingMembers | None = None
        """The members of a gang that have room and wait for the others, as the filters are to see them."""

    @property
    def is_cut(self) -> bool:
        """Whether a gang might go to more parts of the cluster than were looked at."""
        return self._standing is not None and self._standing.is_cut

    @contextmanager
    def of_group(self, pod: Pod, *, is_there: bool) -> Iterator[None]:
        """Let everybody find a place who does, for the length of a block; the pods that then have none are waiting.

        Where the group's own would preempt others, that is not done yet, and they come to each change anew.
        """
        cluster, site = self._site.cluster, self._site
        self._importance = self._filters.info(pod).priority
        with self._filters.search_as_it_was(), Rehearsal(site):
            missing = make_missing(site, pod)
            group = self.group = group_of(site, pod, is_there=is_there)._replace(missing=missing)
            with Rehearsal(site) as tried:
                evictions = len(cluster.evictions)
                self._let_wait(group.waiting)
                site.settle()
                is_preempting = len(cluster.evictions) > evictions
                if not is_preempting:
                    tried.keep()
                    now = (cluster.objects["Pod", each.key] for each in group.waiting)
                    self._place([each for each in now if each.spec.node_name])
                else:
                    changed = tried.changed_pods()
            if is_preempting:
                for each in group.waiting:
                    if ("Pod", each.key) in cluster.objects:
                        cluster.withdraw(each.key)
                site.settle()
                own = {each.key for each in group.waiting}
                self._base = {
                    key: "" if after is None else after.spec.node_name
                    for key, (_, after) in changed.items()
                    if key not in own
                }
                if group.gang is not None:  # who is asked about it has to see that all its members are there
                    self._let_wait(group.waiting)
            with self._stood():
                yield

    @contextmanager
    def _stood(self) -> Iterator[None]:
        """Let the members of a gang that has too little room stand where there is some, for the length of a block."""
        group, gang = self.group, self.group.gang
        if gang is None or len(group.running) >= gang.needed > 0 or group.size < gang.needed or not group.waiting:
            yield
            return
        place = {pod.key: number for number, pod in enumerate(gang.members)}
        order = sorted(group.waiting, key=lambda pod: (-(pod.spec.priority or 0), place.get(pod.key, len(place))))
        self._standing = standing = StandingMembers(self._filters, gang, order)
        with standing.placed():
            left = next((pod for pod in order if pod.key not in standing.nodes), group.pod)
            pod = group.pod if group.pod.key not in standing.nodes else left
            others = group.others if pod is group.pod else group_of(self._site, pod, is_there=group.is_there).others
            self.group = group._replace(pod=pod, standing=standing.nodes, others=others, parts=standing.parts)
            yield

    def _place(self, pods: Sequence[Pod]) -> None:
        """Take the pods of the group that find a place by themselves for running ones."""
        group = self.group
        self.placed = {pod.key: pod.spec.node_name for pod in pods}
        waiting = tuple(pod for pod in group.waiting if pod.key not in self.placed)
        pod = group.pod if group.pod.key not in self.placed or not waiting else waiting[0]
        self.group = group._replace(pod=pod, waiting=waiting, running=(*group.running, *pods))

    def _let_wait(self, pods: Iterable[Pod]) -> None:
        """Have pods wait that are not in the cluster; by now, all that wait may be tried at once."""
        cluster = self._site.cluster
        for pod in pods:
            if ("Pod", pod.key) not in cluster.objects:
                cluster.put(with_priority(pod, cluster.priority_classes))
        cluster.now += BACKOFF_S

    def _count(self, steps: int) -> None:
        self._attempts += steps
        if self._attempts > MOST_ATTEMPTS or (self._attempts % LOOK_EVERY < steps and self._filters.is_stopped):
            raise StoppedError

    # -- one change --------------------------------------------------------------------------------------------------

    def of(self, proposal: Proposal) -> Change | None:
        """Return a change with all that comes of it; None where it cannot be made, or others as important lose by it.

        Raises `StoppedError`. A rollout may be stuck because pods of the old template keep the new ones away. Then
        it is tried how it goes on: a Deployment with more pods that may be unavailable, a StatefulSet with pods that
        are deleted by hand.
        """
        change = self._whatever_the_lot(proposal, 0)
        # Those of a gang that wait for its old members are in each other's way without running.
        may_stop = self.group.gang is not None or (change is not None and change.replaces < len(self.group.running))
        is_stuck = change is not None and change.still_pending and may_stop
        if proposal.pod is None or not self.group.is_rolled_out or not is_stuck:
            return change
        for missing in dict.fromkeys((min(len(self.group.waiting) + 1, self.group.size), self.group.size)):
            further = self._whatever_the_lot(proposal, missing)
            if further is not None and not further.still_pending:
                return further
        return change

    def _whatever_the_lot(self, proposal: Proposal, missing: int) -> Change | None:
        """Return what comes of a change; of a gang, the worse of two trials, the second as its very last comer.

        Where a member that has the choice goes may decide whether there is room for the last one, and so for all; and
        so may who is served first of those that wait beside it and are as important.
        """
        change = self._tried(proposal, missing)
        if self.group.gang is None or change is None or change.still_pending:
            return change
        again = self._tried(proposal, missing, lot=1)
        return change if again is not None and not again.still_pending else again

    def _tried(self, proposal: Proposal, missing: int, lot: int = 0) -> Change | None:
        """Try a proposal; every trial draws the same lots, but for those with another number, where others go first."""
        cluster, replicas, self._besides = self._site.cluster, dict(self._site.replicas), ()
        fits_on: tuple[str, ...] = ()
        try:
            with self._filters.search_as_it_was(), self._as_it_is(), Rehearsal(self._site) as rehearsal:
                if proposal.pod is not None and proposal.kind not in NOT_ASKED and not self.group.beside:
                    fits_on = self._filters.ask(proposal.pod).node_names
                    if not fits_on:
                        return None
                self._let_wait(self.group.waiting)
                if lot:
                    cluster.rng.seed(lot)
                    self._come_last()
                nodes = [name for step in proposal.steps for name in self._carry_out(step, missing)]
                if proposal.pod is None and proposal.kind not in NOT_ASKED:
                    fits_on = self._filters.ask(cluster.objects["Pod", self.group.pod.key]).node_names
                    if not fits_on or (nodes and nodes[0] not in fits_on):
                        return None
                self._site.settle()
                change = self._outcome(rehearsal, proposal, fits_on)
                was_asked = bool(fits_on) or proposal.kind in NOT_ASKED
                return None if change is not None and not was_asked and self._is_paid_by_others(change) else change
        except (ManifestError, ChangeError, ObjectError, StuckError, UnknownPriorityClassError):
            return None
        finally:
            self._site.replicas.clear()
            self._site.replicas.update(replicas)

    def _is_paid_by_others(self, change: Change) -> bool:
        """Say whether it is preemption that makes the room: whether a workload has fewer pods with a place in the end.

        During a rollout an old pod may evict one that finds its place again, or leaves it to another of its workload.
        """
        objects = self._site.cluster.objects

        def owner(key: str) -> object:
            pod = objects.get(("Pod", key))
            return key if pod is None else owner_of(pod) or key

        return bool(Counter(map(owner, change.leaves)) - Counter(map(owner, change.gains)))

    def _come_last(self) -> None:
        """Have the pods of the group that wait come behind all others."""
        cluster = self._site.cluster
        for pod in [cluster.objects["Pod", each.key] for each in self.group.waiting]:
            cluster.withdraw(pod.key)
            cluster.put(pod)

    def _as_it_is(self) -> AbstractContextManager[None]:
        return nullcontext() if self._standing is None else self._standing.lifted()

    def _carry_out(self, step: ProposedStep, missing: int) -> list[str]:
        """Do what a step says; return the nodes that change or are new.

        In a rollout so many pods may be `missing`, even if some of them have to be deleted by hand; 0 for as many as
        the workload itself allows.
        """
        cluster, told = self._site.cluster, step.told
        if step.moves:
            if not moved(self._site, step.moves):
                raise ChangeError("they go elsewhere")
        elif step.like is not None:
            return self._add_nodes(*step.like)
        elif told.patch_type == "delete":
            for key in told.patch["pods"]:
                self._delete(cluster.objects["Pod", key])
        elif told.on == "pod":
            self._replace(step.objects[0], missing)
        elif not step.objects:
            self._scale(told.patch["spec"]["replicas"])
        for claim in (obj for obj in step.objects if isinstance(obj, ResourceClaim)):
            self._make_way(claim)
        cluster.create(obj for obj in step.objects if not isinstance(obj, Pod))
        return [obj.metadata.name for obj in step.objects if isinstance(obj, Node)]

    def _add_nodes(self, model: Node, count: int) -> list[str]:
        """Add nodes, on which the pods that follow each of them run at once."""
        names = add_nodes_like(self._site, model, count)
        for pod in self._site.cluster.without_node:
            if is_daemon(pod) and (name := pinned_to(pod)) in names:
                spec = msgspec.structs.replace(pod.spec, node_name=name)
                self._site.cluster.put(msgspec.structs.replace(pod, spec=spec))
        return names

    def _make_way(self, claim: ResourceClaim) -> None:
        """Delete the claim that another takes the place of, where that asks for something else."""
        known = self._site.cluster.objects.get(("ResourceClaim", key_of(claim)))
        if known is not None and known.spec != claim.spec:
            self._site.cluster.delete("ResourceClaim", key_of(claim))

    def _delete(self, pod: Pod) -> None:
        """Delete a pod; its controller makes another, also a DaemonSet's on the same node, and so does a kubelet."""
        if is_daemon(pod):
            self._site.cluster.delete("Pod", pod.key)
            self._site.cluster.put(pinned(pending_again(pod), pod.spec.node_name))
        elif not is_mirror(pod):
            self._site.send_away(pod, "its deletion")

    def _scale(self, replicas: int) -> None:
        owner = self.group.owner
        found = None if owner is None else find_by_key(self._site, *owner)
        if found is None:
            raise ChangeError("there is nothing to scale")
        scale(self._site, found, replicas, "scaling")

    def _replace(self, after: Pod, missing: int) -> None:
        """Bring a changed pod to all of its group: by a rollout where its controller makes one, else one by one."""
        group, cluster = self.group, self._site.cluster
        if group.is_rolled_out and group.owner is not None:
            manifest = group.with_template(document_of(after), max_unavailable=missing)
            if missing and group.owner[0] == "StatefulSet":
                self._replace_by_hand(manifest)
                return
            if missing:
                self._besides = (more_unavailable(group.owner, missing),)
            found = find_by_key(self._site, *group.owner)
            assert found is not None, "its pods wait, so there is a workload"
            roll_out(self._site, found, manifest)
            return
        for each in group.alike:
            cluster.withdraw(each.key)
            cluster.put(with_priority(like(after, each, group.pod), cluster.priority_classes))

    def _has_node(self, key: str) -> bool:
        pod = self._site.cluster.objects.get(("Pod", key))
        return pod is not None and bool(pod.spec.node_name)

    def _replace_by_hand(self, manifest: WorkloadManifest) -> None:
        """Replace the pods that wait, then those that run, one by one, as the controller does whenever it can go on.

        While one of the new pods has no place it does not, and the next of the old ones has to be deleted by hand.
        """
        cluster = self._site.cluster
        own = [pod for pod in self.group.running if pod.key not in self.group.others]
        running = sorted(own, key=lambda pod: natural(pod.key), reverse=True)
        new: list[str] = []
        deleted: list[str] = []
        for old in (*self.group.alike, *running):
            # Whichever ordinals are there: some may be terminating, and a pod without one is none of the set's.
            ordinal = ordinal_of(old.metadata.name, manifest.name)
            if ordinal is None:
                continue
            if old in running and not all(map(self._has_node, new)):
                deleted.append(old.key)
            fresh = manifest.numbered(ordinal)
            metadata = msgspec.structs.replace(fresh.metadata, uid=f"{old.metadata.uid}/new")
            if ("Pod", old.key) in cluster.objects:  # else it had to make way for others, and was not made again
                cluster.withdraw(old.key)
            pod, claims = made_claims(msgspec.structs.replace(fresh, metadata=metadata), self._site.templates)
            cluster.create([*claims, pod])
            new.append(pod.key)
            self._site.settle()
        self._besides = (pods_deleted(deleted),) if deleted else ()

    def moves(self) -> Iterator[Proposal]:
        """Yield moves of others after which pods of the group have a place. Raises `StoppedError`.

        A gang that has to keep together is made room for in one part of the cluster, and then another.
        """
        standing, parts = self._standing, self.group.parts[:PARTS_CLEARED]
        for part in parts if standing is not None and parts else (None,):
            if (found := self._moves_in(part)) is not None:
                yield found

    def _moves_in(self, part: GangPart | None) -> Proposal | None:
        cluster, names, standing = self._site.cluster, [each.key for each in self.group.waiting], self._standing

        def wanting() -> list[Pod]:
            if part is not None and standing is not None:
                return standing.without_place(part)
            known = (cluster.objects.get(("Pod", key)) for key in names)
            return [pod for pod in known if pod is not None and not pod.spec.node_name]

        with self._filters.search_as_it_was(), self._as_it_is(), Rehearsal(self._site):
            self._let_wait(self.group.waiting)
            together = None
            if part is not None and standing is not None:
                together = Together(part.rows, partial(standing.stood_in, part))
            tries = MOVES_TRIED if together is None else MOVES_TRIED // len(self.group.parts[:PARTS_CLEARED])
            found = MoveSearch(self._site, wanting, local_volumes(self._documents), tries, together).run()
        return None if found is None else pods_moved(found.moves)

    # -- what came of it ---------------------------------------------------------------------------------------------

    def _outcome(self, rehearsal: Rehearsal, proposal: Proposal, fits_on: tuple[str, ...]) -> Change | None:
        change = proposal.as_change()
        changed, running = rehearsal.changed_pods(), {pod.key for pod in self.group.running}
        of_itself = set(change.patch["pods"]) if change.patch_type == "delete" else set[str]()
        expected = change.patch["spec"]["replicas"] if proposal.kind == "replicas" else self.group.size
        nodes = set[str]()
        leaves, moves, gains = list[Pod](), list[str](), list[str]()
        have = sum(key not in changed for key in running)
        for key, (before, after) in changed.items():
            node = after.spec.node_name if after is not None else ""
            if self._is_own(after if after is not None else before):
                if after is not None and node and is_active(after):
                    have += 1
                    nodes |= {node} if key not in running else set()
            elif before is not None and is_active(before):
                was = self._base.get(key, before.spec.node_name)
                if was and not node and (key not in of_itself or owner_of(before) is not None):
                    leaves.append(before)
                elif was and node and (was != node or _is_another(before, after)):
                    moves.append(key)
                elif node and not was:
                    gains.append(key)
        if any((pod.spec.priority or 0) >= self._importance for pod in leaves):
            return None
        smaller = declared_gang(self._site.cluster, self.group.pod) if proposal.kind == SMALLER else None
        if smaller is not None and have < smaller.needed:
            return None
        cost = change.cost + LEFT_COST * len(leaves) + MOVED_COST * len(set(moves) - of_itself)
        return msgspec.structs.replace(
            change,
            fits_on=fits_on if self.group.size == 1 and fits_on else tuple(sorted(nodes)),
            cost=round(cost, 6),
            with_=(*change.with_, *self._besides),
            replaces=sum(key in changed and _is_another(*changed[key]) for key in running),
            moves=tuple(moves),
            leaves=tuple(pod.key for pod in leaves),
            gains=tuple(gains),
            still_pending=max(expected - have, 0),
        )

    def _is_own(self, pod: Pod | None) -> bool:
        group = self.group
        if pod is None or (group.gang is not None and group.gang.has(pod)):
            return pod is not None
        if group.owner is None:
            return pod.key == group.pod.key
        return workload_of(pod, self._site.cluster.objects) == group.owner


def like(after: Pod, pod: Pod, before: Pod) -> Pod:
    """Return a pod made anew as another of its workload is, which was like `before`; it keeps its own volumes."""
    spec = after.spec
    if after.spec.volumes == before.spec.volumes:
        spec = msgspec.structs.replace(spec, volumes=pod.spec.volumes)
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}~")
    return Pod(metadata=metadata, spec=msgspec.structs.replace(spec, node_name=pod.spec.node_name), status=pod.status)


def _is_another(before: Pod | None, after: Pod | None) -> bool:
    return before is None or after is None or before.metadata.uid != after.metadata.uid
