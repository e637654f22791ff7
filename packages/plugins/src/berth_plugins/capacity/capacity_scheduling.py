"""CapacityScheduling: quotas with a minimum that is guaranteed and a maximum, between which namespaces borrow.

Upstream plugin `CapacityScheduling`, with ElasticQuota. PreFilter turns a pod away with which its namespace would use
more than its maximum, or all quotas together more than the sum of their minimums. PostFilter makes room: a pod within
its namespace's minimum takes back what others have borrowed, from pods of any priority; one beyond it preempts lower
priorities of its own namespace; one without a quota, those without a quota. Reserve counts a pod at once.

Nominated pods count with the pod: those of its namespace that are no less important, and those of other namespaces
that are not over their minimum.

As upstream's, a node cannot be freed where the filters do not spare a victim and the quotas have no room for what is
nominated even without it: that victim is taken off the node twice, which is an error.

Deviations: a quota counts the pods that are there when it comes; upstream's counts from 0 until a restart. Pods that
are resized count as much as they request now. Pods that have finished are never counted. A victim that only the
quotas do not spare counts as one that breaks its disruption budget; upstream forgets that one.
"""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from typing import ClassVar, final

from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventsPlugin,
    ExplainingPlugin,
    Figure,
    FiguresPlugin,
    Handle,
    NodeView,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    PostFilterAnswer,
    PostFilterPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    QueueingHint,
    Remedy,
    RemedyPlugin,
    ReservePlugin,
    Status,
    Steps,
    VictimRules,
    error,
    queue_if,
    unresolvable,
    unschedulable,
)
from berth_plugins.capacity.amounts import CPU, MEMORY, Amounts, Excess, add, quantity_of, requests_of
from berth_plugins.capacity.elastic_quotas import ELASTIC_QUOTAS, ElasticQuota, bounds_by_namespace
from berth_plugins.capacity.usage import Usage, UsageWhatIf, is_any

OVER_MAX = "Pod {pod} is rejected in PreFilter because ElasticQuota {namespace} is more than Max"
OVER_MIN = "Pod {pod} is rejected in PreFilter because total ElasticQuota used is more than min"
STILL_OVER = unschedulable("global quota max exceeded")
NOT_ON_NODE = "no corresponding pod {pod} in pods of node {node}"

NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
NOT_ASKED = "not eligible due to failed to read from cycleState"
VICTIMS_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No victims found on node {node} for preemptor pod {pod}"
NO_VICTIMS_ANYWHERE = "No victims found for preemptor pod {pod}"

WITHIN = "the pod is within the min of its namespace, so it may preempt pods of namespaces that are over theirs"
BEYOND = "min.{} of its namespace, beyond which it may preempt lower priorities of its namespace alone"


class QuotaQuestion:
    """A pod's attempt: what it requests, with what is nominated besides, and what is used, also in what-ifs."""

    __slots__ = (
        "_borrows", "_namespace", "in_all", "in_namespace", "is_reprieving", "requests", "taken_again", "usage",
    )  # fmt: skip

    def __init__(
        self, usage: UsageWhatIf, namespace: str, requests: Amounts, in_namespace: Amounts, in_all: Amounts
    ) -> None:
        self.usage = usage
        self._namespace = namespace
        self.requests = requests
        self.in_namespace = in_namespace
        """What it requests together with nominated pods of its namespace."""
        self.in_all = in_all
        """With those of other namespaces as well."""
        self.is_reprieving = False
        """Whether potential victims are being put back: then what is nominated counts, too."""
        self.taken_again = ""
        """The name of the pod that was put back last, if it is off the node again."""
        self._borrows: bool | None = None

    @property
    def borrows(self) -> bool:
        """Whether the pod is beyond its namespace's minimum; worked out once, and the same in what-ifs about it."""
        if self._borrows is None:
            self._borrows = is_any(self.usage.over_least(self._namespace, self.in_namespace))
        return self._borrows

    def clone(self) -> "QuotaQuestion":
        """Return a copy for a what-if."""
        copy = QuotaQuestion(self.usage.clone(), self._namespace, self.requests, self.in_namespace, self.in_all)
        copy.is_reprieving, copy.taken_again = self.is_reprieving, self.taken_again
        return copy


def _in_words(bound: str, excess: Excess, requests: Amounts) -> str:
    """Say what is used of a bound, and asked for besides."""
    used, asked, limit = (quantity_of(excess.resource, each) for each in (excess.used, excess.asked, excess.bound))
    own = requests.get(excess.resource, 0)
    besides = excess.asked - own
    by_others = f", {quantity_of(excess.resource, besides)} of it by nominated pods" if besides else ""
    return f"{bound}: {limit}; used: {used}; asked for: {asked}{by_others}"


@final
class CapacityScheduling(
    PreFilterPlugin,
    PreFilterExtensions,
    PostFilterPlugin,
    VictimRules,
    ReservePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    EventsPlugin,
    FiguresPlugin,
    ExplainingPlugin,
    RemedyPlugin,
):
    """PreFilter, PostFilter and Reserve."""

    name: ClassVar[str] = "CapacityScheduling"

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.follow(ELASTIC_QUOTAS)
        self._version = -1
        self._current = Usage()
        self._nominator = handle.nominator
        self._table = handle.cache.table
        self._nominated: dict[str, tuple[PodInfo, Amounts]] = {}
        """What the pods request that were nominated when it was last looked."""
        self._preemption = handle.preemption(
            self, min_candidate_nodes_percentage=100, basis=self.basis, refusal_basis=self.refusal_basis
        )
        self._asked: QuotaQuestion | None = None
        """That of the search for victims under way."""

    @property
    def _usage(self) -> Usage:
        if self._objects.version != self._version:
            self._version = self._objects.version
            self._current.put_quotas(bounds_by_namespace(self._objects.list()))
        return self._current

    # -- which pods there are --

    def pod_added(self, pod: PodInfo) -> None:
        """Count a pod that is on a node."""
        if pod.node_name:
            self._usage.bind(pod)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Count a pod that is on a node from now on, or requests something else."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Count a pod no more that is gone."""
        self._usage.remove(pod.uid)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Count the pod."""
        self._usage.reserve(pod)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count it no more."""
        self._usage.unreserve(pod.uid)

    # -- what is told of it --

    def figures(self) -> Sequence[Figure]:
        """Return what each quota counts as used: CPU in milli-units, memory, and what else there is any of."""
        return [
            Figure("quota_used", {"namespace": namespace, "resource": name}, amount)
            for namespace in sorted(self._usage.quotas)
            for name, amount in sorted({CPU: 0, MEMORY: 0, **self._usage.of(namespace)}.items())
        ]

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]:
        """Return, with figures, of what there is too much, and whom the pod may preempt."""
        quota = self._usage.quotas.get(pod.namespace)
        if quota is None:
            return ()
        question, name = self._question(pod), f"ElasticQuota {pod.namespace}/{quota.name}"
        usage, requests = question.usage, question.requests
        most, total = usage.over_most(pod.namespace, question.in_namespace), usage.over_total(question.in_all)
        found = [_in_words(f"max.{each.resource} of {name}", each, requests) for each in most]
        found += [_in_words(f"min.{each.resource} of all ElasticQuotas together", each, requests) for each in total]
        if found:
            borrowed = next(usage.over_least(pod.namespace, question.in_namespace), None)
            found.append(
                WITHIN if borrowed is None else _in_words(BEYOND.format(borrowed.resource), borrowed, requests)
            )
        return found

    def remedies(self, pod: PodInfo) -> Sequence[Remedy]:
        """Return how the quota of the pod's namespace could be raised: its maximum, its minimum, or both."""
        quota = self._usage.quotas.get(pod.namespace)
        if quota is None:
            return ()
        question = self._question(pod)
        most = list(question.usage.over_most(pod.namespace, question.in_namespace))
        total = list(question.usage.over_total(question.in_all))
        # The sum of the minimums grows by as much as one of them does.
        raised = [("max", each.resource, each.bound, each.used + each.asked) for each in most]
        for each in total:
            before = quota.least.get(each.resource, 0)
            raised.append(("min", each.resource, before, before + each.used + each.asked - each.bound))
        if not raised:
            return ()
        patch: dict[str, dict[str, str]] = {}
        for bound, resource, _, to in raised:
            patch.setdefault(bound, {})[resource] = quantity_of(resource, to)
        words = [
            f"{bound}.{resource} from {quantity_of(resource, before)} to {quantity_of(resource, to)}"
            for bound, resource, before, to in raised
        ]
        return [Remedy(ELASTIC_QUOTAS, pod.namespace, quota.name, {"spec": patch}, f"raise {' and '.join(words)}")]

    # -- the cycle --

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Turn a pod away that is beyond its namespace's maximum, or beyond what all namespaces have together."""
        question = self._question(pod)
        state.write(self.name, question)
        if pod.namespace not in self._usage.quotas:
            return None
        if is_any(question.usage.over_most(pod.namespace, question.in_namespace)):
            return unschedulable(OVER_MAX.format(pod=pod.key, namespace=pod.namespace))
        if is_any(question.usage.over_total(question.in_all)):
            return unschedulable(OVER_MIN.format(pod=pod.key))
        return None

    def _question(self, pod: PodInfo) -> QuotaQuestion:
        requests, what_if = requests_of(pod), UsageWhatIf(self._usage)
        if pod.namespace not in self._usage.quotas:
            return QuotaQuestion(what_if, pod.namespace, requests, requests, requests)
        in_namespace, in_all = dict(requests), dict(requests)
        for other, asked in self._nominated_pods():
            if other.uid == pod.uid:
                continue
            if other.namespace != pod.namespace:
                if other.namespace not in self._usage.lent_to:
                    add(in_all, asked)
            elif other.priority >= pod.priority:
                add(in_namespace, asked)
                add(in_all, asked)
        return QuotaQuestion(what_if, pod.namespace, requests, in_namespace, in_all)

    def _nominated_pods(self) -> Iterable[tuple[PodInfo, Amounts]]:
        """Return the pods of namespaces with a quota that are nominated to nodes, with what they request."""
        known, found, quotas, table = self._nominated, {}, self._usage.quotas, self._table
        for node_name in self._nominator.nodes():
            row = table.row_of.get(node_name)
            if row is None or not table.valid[row]:
                continue
            for pod in self._nominator.pods_on(node_name):
                if pod.namespace in quotas:
                    before = known.get(pod.uid)
                    found[pod.uid] = before if before and before[0] is pod else (pod, requests_of(pod))
        self._nominated = found
        return found.values()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count a pod that comes in a what-if."""
        question: QuotaQuestion | None = state.get(self.name)
        if question is not None:
            question.usage.put(added)
            question.is_reprieving, question.taken_again = True, ""
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Count a pod no more that goes in a what-if."""
        question: QuotaQuestion | None = state.get(self.name)
        if question is not None:
            question.usage.take(removed)
            question.taken_again = removed.name if question.is_reprieving else ""
        return None

    # -- preemption --

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none."""
        self._asked = state.get(self.name)
        return self._preemption.post_filter(state, pod, diagnosis)

    def ineligibility(self, pod: PodInfo, nominated: NodeView | None) -> str | None:
        """Say why a pod may not preempt at all: it never does, or pods that it may preempt are on their way out."""
        if pod.spec.preemption_policy == "Never":
            return NEVER_PREEMPTS
        if self._asked is None:
            return NOT_ASKED
        leaving = [] if nominated is None else [each for each in nominated.pods.values() if each.is_terminating]
        if not leaving:
            return None
        quotas, asked = self._usage.quotas, self._asked
        if pod.namespace not in quotas:
            waits = any(each.namespace not in quotas and each.priority < pod.priority for each in leaving)
        else:
            waits = any(
                each.priority < pod.priority
                if each.namespace == pod.namespace
                else not asked.borrows and each.namespace in self._usage.lent_to
                for each in leaving
            )
        return VICTIMS_TERMINATING if waits else None

    def potential_victims(self, state: CycleState, pod: PodInfo, node: NodeView) -> Sequence[PodInfo] | Status:
        """Return the pods that may have to leave."""
        question: QuotaQuestion = state.read(self.name)
        quotas, others = self._usage.quotas, node.pods.values()
        found: Sequence[PodInfo]
        if pod.namespace not in quotas:
            found = [each for each in others if each.namespace not in quotas and each.priority < pod.priority]
        elif question.borrows:
            found = [each for each in others if each.namespace == pod.namespace and each.priority < pod.priority]
        else:
            lent_to = self._usage.lent_to - {pod.namespace}
            found = _borrowers(question, [each for each in others if each.namespace in lent_to])
        if found:
            return found
        words = NO_VICTIMS.format(node=node.name, pod=pod.name)
        return unresolvable(words, in_general=(NO_VICTIMS_ANYWHERE.format(pod=pod.name),))

    def basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what potential victims depend on: whose pods the pod may preempt, and up to which priority."""
        question: QuotaQuestion = state.read(self.name)
        if pod.namespace not in self._usage.quotas:
            return self._usage.namespaces, pod.priority
        return (pod.namespace, pod.priority) if question.borrows else self._usage.lent_to - {pod.namespace}

    def refusal_basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return by how much quotas are exceeded, with what is nominated and without, and who has borrowed how much.

        What-ifs only take pods off, so what is not exceeded now never is. And a namespace that has borrowed more than
        is requested on any node stays over its minimum whatever is taken off one, so its amounts do not matter.
        """
        quotas = self._usage.quotas
        if pod.namespace not in quotas:
            return ()
        question: QuotaQuestion = state.read(self.name)
        usage, table = question.usage, self._table
        exceeded = [
            tuple((each.resource, each.amount) for each in found)
            for found in (
                usage.over_most(pod.namespace, question.requests),
                usage.over_most(pod.namespace, question.in_namespace),
                usage.over_total(question.requests),
                usage.over_total(question.in_all),
            )
        ]
        lenders = () if question.borrows else sorted(self._usage.lent_to - {pod.namespace})
        most = {name: int(table.requested[index].max()) for name, index in table.resource_index.items()}
        borrowed = [
            (namespace, each.resource, each.amount)
            for namespace in lenders
            if not any(each.amount > most.get(each.resource, each.amount) for each in usage.borrowed(namespace))
            for each in usage.borrowed(namespace)
        ]
        return tuple(exceeded), tuple(borrowed)

    def refusal(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say that the quotas do not let the pod in even so.

        While potential victims are put back, those must find room as well that are nominated elsewhere.
        """
        if pod.namespace not in self._usage.quotas:
            return None
        question: QuotaQuestion = state.read(self.name)
        in_namespace = question.in_namespace if question.is_reprieving else question.requests
        in_all = question.in_all if question.is_reprieving else question.requests
        usage = question.usage
        if not (is_any(usage.over_most(pod.namespace, in_namespace)) or is_any(usage.over_total(in_all))):
            return None
        again = question.taken_again
        return error(NOT_ON_NODE.format(pod=again, node=node.name)) if again else STILL_OVER

    # -- events and hints --

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may help: pods that go, shrink, or borrow what can be taken back, and quotas that change."""
        return [
            ClusterEventWithHint(
                ClusterEvent("Pod", Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), self._after_less_is_used
            ),
            ClusterEventWithHint(ClusterEvent("Pod", Action.ADD), self._after_more_is_used),
            ClusterEventWithHint(ClusterEvent(ELASTIC_QUOTAS.name, Action.ALL), self._after_quota),
        ]

    def _after_less_is_used(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Less use of its own namespace helps a pod, that of another one unless it is beyond its own maximum."""
        changed = old or new
        return queue_if(
            changed is None
            or pod.namespace not in self._usage.quotas
            or changed.uid == pod.uid
            or changed.namespace == pod.namespace
            or (changed.namespace in self._usage.quotas and not self._is_over_most(pod))
        )

    def _after_more_is_used(self, pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """A pod that has borrowed what is this one's may be preempted; so may one of less priority beside it."""
        if new is None or pod.namespace not in self._usage.quotas:
            return QueueingHint.QUEUE
        if new.namespace == pod.namespace:
            return queue_if(new.priority < pod.priority)
        return queue_if(new.namespace in self._usage.lent_to)

    def _after_quota(self, pod: PodInfo, old: ElasticQuota | None, new: ElasticQuota | None) -> QueueingHint:
        """The pod's own quota has changed, or one of those that add up."""
        own = any(each is not None and each.metadata.namespace == pod.namespace for each in (old, new))
        return queue_if(own or not self._is_over_most(pod))

    def _is_over_most(self, pod: PodInfo) -> bool:
        if pod.namespace not in self._usage.quotas:
            return False
        return is_any(UsageWhatIf(self._usage).over_most(pod.namespace, requests_of(pod)))


def _borrowers(question: QuotaQuestion, others: Sequence[PodInfo]) -> Sequence[PodInfo]:
    """Return pods of namespaces over their minimum, the least important first, for as long as these are over."""
    found, left = [], question.usage.clone()
    for each in sorted(others, key=lambda pod: (pod.priority, -_started_s(pod))):
        if left.is_over_least(each.namespace):
            found.append(each)
            left.take(each)
    return found


def _started_s(pod: PodInfo) -> float:
    """Return when a pod started, since 1970; one that has not is the youngest."""
    text = pod.status.start_time
    return datetime.fromisoformat(text).timestamp() if text else float("inf")
