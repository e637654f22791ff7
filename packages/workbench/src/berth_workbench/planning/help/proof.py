"""Tries changes on a cluster: a changed pod, other nodes and objects, fewer pods. Everything is put back afterwards.

Changes go into the cache and the object store of the core directly, past the queue: no pending pod is woken by what is
only tried. Each question counts as a trial; when they are used up, `StoppedError` ends the search.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.dra import ResourceClaim, ResourceClaimStatus
from berth.api.node import Namespace, Node
from berth.api.pod import Pod
from berth.api.selectors import SelectorError
from berth.core.questions import find, profile_of, run, unanswered
from berth.cycle.attempt import UNDECIDED, Attempt
from berth.cycle.schedule import run_post_filter
from berth.engine.profile import Profile
from berth.framework.blame import PluginBrokenError
from berth.framework.status import Code, Status
from berth.framework.work_budget import OutOfBudgetError
from berth.plugins.preemption.budgets import Budget, Budgets
from berth.state.objects import key_of
from berth.state.pod_info import PodInfo
from berth_workbench.planning.help.result import Change
from berth_workbench.simulation.admission import with_priority
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

Json = dict[str, Any]
Mask = NDArray[np.bool_]

RESOURCE_CLAIM = "ResourceClaim"
STEPS_OF_A_TRIAL = 10_000
"""A trial that spends so many steps of an attempt's budget of work counts as one more."""
MOST_BESIDE = 300
"""Of so many pods that run beside it, a changed pod's filters are told that they are changed as well."""
NO_PROFILE = "no profile of this scheduler is called {}"


class FilterAnswer:
    """What the filters say of one pod on the cluster as it is during a trial."""

    __slots__ = ("_attempt", "_names", "_valid", "fits", "message", "refusal")

    def __init__(self, attempt: Attempt, valid: Mask, names: list[str], message: str, refusal: Status | None) -> None:
        nodes = attempt.found.nodes
        self._attempt = attempt
        self._valid = valid.copy()
        self._names = names
        self.refusal = refusal
        """What keeps the pod out of the queue, whatever the nodes."""
        self.message = message
        self.fits: Mask = np.zeros_like(valid)
        """The rows where the pod fits; none where it is kept out of the queue."""
        if nodes is not None and refusal is None and attempt.outcome.error is None:
            self.fits = nodes.mask.copy()

    @property
    def is_yes(self) -> bool:
        """Say whether the pod fits anywhere."""
        return bool(self.fits.any())

    @property
    def is_given_up(self) -> bool:
        """Say whether a plugin broke, or took too long, so that it is not known whether the pod fits."""
        return self._attempt.outcome.error is not None and bool(self._valid.any())  # without any node that is one, too

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes where the pod fits, sorted."""
        return tuple(sorted(self._names[row] for row in np.flatnonzero(self.fits).tolist()))

    @property
    def pre_filter_status(self) -> Status | None:
        """What PreFilter said where it rejected the pod outright."""
        pre = self._attempt.found.pre_filtered
        return None if pre is None else pre.status

    @property
    def rejecting(self) -> dict[str, Mask]:
        """The rows that each plugin rejects, whatever the others say, as far as they were asked."""
        found: dict[str, Mask] = {}
        pre, verdicts = self._attempt.found.pre_filtered, self._attempt.found.verdicts
        if pre is not None and pre.status is not None:
            for name in [pre.status.plugin] if pre.status.plugin else pre.narrowing_plugins:
                found[name] = self._valid.copy()
        if pre is not None and pre.node_names is not None and verdicts is not None:
            named = np.array([name in pre.node_names for name in self._names], dtype=np.bool_)
            for name in pre.narrowing_plugins:
                found[name] = self._valid & ~named
        for verdict in verdicts.by_plugin if verdicts is not None else ():
            rejected = (verdict.codes != 0) & self._valid
            if rejected.any():
                found[verdict.plugin] = rejected | found.get(verdict.plugin, np.zeros_like(rejected))
        return found

    def resolvable(self) -> Mask:
        """Return the rejected rows of which no plugin says that removing pods would not help."""
        pre, verdicts = self._attempt.found.pre_filtered, self._attempt.found.verdicts
        found = self._valid & ~self.fits
        if verdicts is None:
            status = None if pre is None else pre.status
            return found if status is not None and status.code is Code.UNSCHEDULABLE else np.zeros_like(found)
        if pre is not None and pre.node_names is not None:
            found &= np.array([name in pre.node_names for name in self._names], dtype=np.bool_)
        for verdict in verdicts.by_plugin:
            codes = verdict.codes
            for code in np.unique(codes).tolist():
                if code and verdict.describe(code).code is not Code.UNSCHEDULABLE:
                    found &= codes != code
        return found

    def affects(self, other: PodInfo) -> bool:
        """Say whether the going of another pod may change more for this one than how much of a node is taken.

        Where PreFilter has ended the search nobody can say, nor where a selector cannot be read; then it does not.
        """
        attempt = self._attempt
        if attempt.found.verdicts is None:
            return False
        with suppress(SelectorError):
            return self._affects(other)
        return False

    def _affects(self, other: PodInfo) -> bool:
        attempt = self._attempt
        return any(
            plugin.is_affected_by(attempt.state, attempt.pod, other)
            for runner in attempt.profile.filters
            if runner.name not in attempt.state.skip_filter and (plugin := runner.plugin.filter_by_pods) is not None
        )

    def reasons(self) -> Iterator[tuple[Status, Mask]]:
        """Yield each status that a filter gave, with the rows."""
        verdicts = self._attempt.found.verdicts
        for verdict in verdicts.by_plugin if verdicts is not None else ():
            codes = verdict.codes
            for code in np.unique(codes[self._valid]).tolist():
                if code:
                    yield verdict.describe(code).by(verdict.plugin), (codes == code) & self._valid


class Proposal(NamedTuple):
    """A change that is yet to be proven, and what has to be put on the cluster for that."""

    change: Change
    """As it is told, but for the nodes on which the pod fits then."""
    pod: Pod | None = None
    """The pod as it would be, where it changes."""
    node: Node | None = None
    """The node as it would be: the pod has to fit on this one."""
    objects: tuple[Any, ...] = ()
    """Other objects as they would be."""
    pods: tuple[PodInfo, ...] = ()
    """The pods that would run on the node."""
    also: tuple["Proposal", ...] = ()
    """What is done likewise to other nodes, for the other pods of the workload; the filters are not asked about it."""
    replicas: int | None = None
    """How many pods the workload is to have; None for as many as it has."""


class ChangeProver:
    """A cluster on which changes are tried. What it is given is as it was after each of the context managers."""

    __slots__ = ("_used", "_watch", "budgets", "cluster", "core", "limit", "trials")

    def __init__(self, cluster: SimulatedCluster, limit: int, watch: WorkWatch = UNWATCHED) -> None:
        """`watch` is told of each trial; once it is stopped, no more trials are left."""
        self._watch = watch
        self.cluster = cluster
        self.core = cluster.core
        self.limit = limit
        self.budgets: tuple[Budget, ...] = Budgets(self.core.objects).all()
        """The disruption budgets as the cluster has them, before anything is tried."""
        self.trials = 0
        """How often the filters were asked."""
        self._used = 0
        """How much of the limit is used: more than one of it for a trial that takes long."""

    @property
    def table(self) -> Any:
        """The nodes."""
        return self.core.cache.table

    def info(self, pod: Pod) -> PodInfo:
        """Return a pod as plugins see it, with the priority of its class."""
        return self.core.intake.info(with_priority(pod, self.cluster.priority_classes))

    def profile(self, pod: PodInfo) -> Profile:
        """Return the profile that would schedule a pod."""
        return profile_of(self.core, pod)

    # -- questions ---------------------------------------------------------------------------------------------------

    def ask(self, pod: Pod | PodInfo, *, is_whole: bool = True) -> FilterAnswer:
        """Ask whether a pod fits; without `is_whole` only its filters count, for a part of a pod."""
        self._count()
        info = pod if isinstance(pod, PodInfo) else self.info(pod)
        refusal = self._refusal(info) if is_whole else None
        attempt = self._find(info)
        self._used += attempt.state.work.spent // STEPS_OF_A_TRIAL
        message = refusal.message if refusal is not None else attempt.outcome.message
        return FilterAnswer(attempt, self.table.valid, list(self.table.names), message, refusal)

    def _find(self, info: PodInfo) -> Attempt:
        """Search for nodes; a plugin that breaks, or works too long, ends this search only, as it would in a cycle."""
        with self.search_as_it_was():
            return find(self.core, info, on_bug=_told)

    def prove(self, info: PodInfo, proposal: Proposal, beside: Sequence[Pod] = ()) -> Change | None:
        """Return a change with the nodes on which the pod fits once it is made; None where it fits on none.

        `beside` are the running pods of its workload, which get its changes, too.
        """
        with ExitStack() as trial:
            if proposal.pod is not None:
                trial.enter_context(self._like(proposal.pod, beside))
            node = proposal.node
            row = None if node is None else trial.enter_context(self.node(node))
            trial.enter_context(self.objects(proposal.objects))
            if node is not None:
                trial.enter_context(self.pods((pod, node.metadata.name) for pod in proposal.pods))
            answer = self.ask(proposal.pod or info)
        if not (answer.is_yes if row is None else answer.fits[row]):
            return None
        return msgspec.structs.replace(proposal.change, fits_on=answer.node_names)

    def preempts(self, pod: Pod) -> tuple[str, tuple[str, ...]] | None:
        """Return the node that preemption would free for a pod, and the victims; None where it would free none."""
        self._count()
        info = self.info(pod)
        attempt = self._find(info)
        failure = attempt.outcome
        if failure is UNDECIDED or failure.error is not None or attempt.profile.extenders:
            return None
        with self.search_as_it_was():
            try:
                outcome = run(run_post_filter(attempt, failure), unanswered)
            except (PluginBrokenError, OutOfBudgetError):
                return None
        if outcome is None:  # a plugin asks the API server; what would come of it cannot be said here
            return None
        self._used += attempt.state.work.spent // STEPS_OF_A_TRIAL
        if not outcome.nominated_node_name:
            return None
        return outcome.nominated_node_name, tuple(victim.key for victim in outcome.victims)

    def _refusal(self, info: PodInfo) -> Status | None:
        name = info.spec.scheduler_name
        if name not in self.core.profiles:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_PROFILE.format(name),))
        return self.profile(info).run_pre_enqueue(info)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants the search to end."""
        return self._watch.is_stopped

    def _count(self) -> None:
        if self._used >= self.limit or self.is_stopped:
            raise StoppedError
        self.trials += 1
        self._used += 1
        self._watch.advance()

    @contextmanager
    def search_as_it_was(self) -> Iterator[None]:
        """Leave no trace in what one attempt hands to the next: where to start, and the random numbers."""
        search, rng = self.core.search, self.cluster.rng
        start, state = search.start_index, rng.getstate()
        try:
            yield
        finally:
            search.start_index = start
            rng.setstate(state)

    # -- changes -----------------------------------------------------------------------------------------------------

    @contextmanager
    def node(self, node: Node) -> Iterator[int]:
        """Put a node in the place of what is known of it, or add it; yield its row."""
        cache, name = self.core.cache, node.metadata.name
        known = cache.table.row_of.get(name)
        before = None if known is None else cache.table.nodes[known]
        row = cache.put_node(node)
        try:
            yield row
        finally:
            if before is None:
                cache.remove_node(name)
            else:
                cache.put_node(before)

    @contextmanager
    def objects(self, objects: Iterable[Any]) -> Iterator[None]:
        """Put objects that are neither nodes nor pods, in the place of those of the same name if there are any."""
        store, before = self.core.objects, []
        try:
            for obj in objects:
                kind = self.core.resources.name_of(obj)
                before.append((kind, obj, store.put(kind, obj)))
                if isinstance(obj, Namespace):
                    self.core.cache.set_namespace(key_of(obj), obj.metadata.labels)
            yield
        finally:
            for kind, obj, old in reversed(before):
                if old is None:
                    store.remove(kind, obj)
                else:
                    store.put(kind, old)
                if isinstance(obj, Namespace):
                    self.core.cache.set_namespace(key_of(obj), None if old is None else old.metadata.labels)

    @contextmanager
    def pods(self, pods: Iterable[tuple[PodInfo, str]]) -> Iterator[None]:
        """Count more pods on nodes."""
        cache, counted = self.core.cache, []
        try:
            for pod, node_name in pods:
                cache.assume(pod, node_name)
                counted.append(pod.uid)
            yield
        finally:
            for uid in reversed(counted):
                cache.forget(uid)

    @contextmanager
    def _like(self, pod: Pod, others: Sequence[Pod]) -> Iterator[None]:
        """Let other pods of a workload, where they run, be as this one is; they keep their own volumes and devices."""
        states = (self.core.cache.state_of(each.metadata.uid) for each in others[:MOST_BESIDE])
        changed = [
            (state.pod, self.info(_in_place_of(state.pod.pod, pod)))
            for state in states
            if state is not None and not state.pod.spec.resource_claims
        ]
        here = ((after, before.node_name) for before, after in changed)
        with self.without(before.uid for before, _ in changed), self.pods(here):
            yield

    @contextmanager
    def without(self, uids: Iterable[str]) -> Iterator["Leave"]:
        """Take pods off their nodes; yield what can put single ones back before the end."""
        leave = Leave(self)
        try:
            for uid in uids:
                leave.take(uid)
            yield leave
        finally:
            leave.end()

    def state_of_row(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on a row, by uid."""
        found: Mapping[str, PodInfo] = self.table.pods[row]
        return found


def _in_place_of(pod: Pod, after: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}~")
    spec = msgspec.structs.replace(after.spec, node_name="", volumes=pod.spec.volumes)
    return Pod(metadata=metadata, spec=spec)


def _told(bug: BaseException) -> str:
    if isinstance(bug, PluginBrokenError | OutOfBudgetError):
        return str(bug)
    raise bug


class Leave:
    """Pods that are off their nodes for a while. Devices that only they use are free meanwhile."""

    __slots__ = ("_cache", "_claims", "_handlers", "_store", "away")

    def __init__(self, prover: ChangeProver) -> None:
        self._cache = prover.core.cache
        self._store = prover.core.objects
        self._handlers = prover.core.intake.handlers
        """Plugins that count pods by themselves: they hear that one has gone, and that it has come back."""
        self._claims: dict[str, ResourceClaim] = {}
        """The claims that are free for a while, as they were."""
        self.away: dict[str, PodInfo] = {}
        """The pods that are off their nodes, by uid."""

    def take(self, uid: str) -> None:
        """Take a pod off its node."""
        state = self._cache.state_of(uid)
        assert state is not None, "only counted pods can leave"
        self.away[uid] = state.pod
        self._cache.lift(uid)
        if self._handlers is not None:
            self._handlers.removed(state.pod)
        for claim in self._claims_of(state.pod):
            if all(user.uid in self.away for user in claim.status.reserved_for):
                self._claims[key_of(claim)] = claim
                self._store.put(RESOURCE_CLAIM, deallocated(claim))

    def back(self, uid: str) -> None:
        """Put a pod back."""
        self._cache.put_back(uid)
        pod = self.away.pop(uid)
        if self._handlers is not None:
            self._handlers.added(pod)
        for claim in self._claims_of(pod):
            before = self._claims.pop(key_of(claim), None)
            if before is not None:
                self._store.put(RESOURCE_CLAIM, before)

    def shrink(self, uids: Iterable[str], fits: Callable[[], bool]) -> None:
        """Put back, one after the other, the pods without which it fits no less; one at least stays away."""
        for uid in uids:
            if len(self.away) == 1:
                return
            self.back(uid)
            if not fits():
                self.take(uid)

    def end(self) -> None:
        """Put back whatever is still off."""
        for uid in reversed(list(self.away)):
            self.back(uid)

    def _claims_of(self, pod: PodInfo) -> Iterator[ResourceClaim]:
        for use in pod.spec.resource_claims:
            made = (each.resource_claim_name for each in pod.status.resource_claim_statuses if each.name == use.name)
            name = use.resource_claim_name or next(made, None)
            claim = None if name is None else self._store.get(RESOURCE_CLAIM, name, pod.namespace)
            if claim is not None:
                yield claim


def deallocated(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim as it is once nobody uses it any more."""
    return msgspec.structs.replace(claim, status=ResourceClaimStatus())


def document_of(obj: Any) -> Json:
    """Return an object as JSON values, without those that are absent, as empty lists are."""
    found: Json = _without_nulls(msgspec.to_builtins(obj))
    spec = found.get("spec", {})
    for field in ("tolerations", "taints"):
        if field in spec:  # an empty text means the same there as none
            spec[field] = [{key: value for key, value in each.items() if value != ""} for each in spec[field]]
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item not in (None, (), [])}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
