"""Handles a pod that was not placed: queues it again, and says why in its condition and in an event.

Called by the core when an attempt has failed, in the scheduling cycle or while binding. A pod that has gone or been
bound meanwhile is dropped.

In v1.20 a failure that names a missing node also removes that node from the cache. One answer is not enough for that:
the API server is first asked for the node itself. Source: pkg/scheduler/factory.go, MakeDefaultErrorFunc, release-1.20.
"""

import re
from collections.abc import Callable, Iterable
from typing import Literal

from berth.api.node import Node
from berth.cycle.attempt import Attempt
from berth.cycle.dispatcher import Dispatcher
from berth.framework.effects import ApiCall, EmitEvent, PatchPodStatus, PodRef, Steps, call
from berth.queue.queue import SchedulingQueue
from berth.state.nominator import Nominator
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""The reasons of the condition PodScheduled: the pod fits nowhere at present, or something went wrong."""

_NOT_FOUND = re.compile(r'\bnodes? "([^"]+)" not found')


class FailureHandler:
    """Puts failed pods back into the queue."""

    __slots__ = ("_dispatcher", "_latest", "_missing_nodes", "_nominator", "_queue")

    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: Nominator,
        dispatcher: Dispatcher,
        *,
        latest: Callable[[PodInfo], PodInfo | None],
        missing_nodes: "MissingNodes | None" = None,
    ) -> None:
        """`latest` returns a pending pod as it is now, or None if it is gone, bound or being deleted."""
        self._queue = queue
        self._nominator = nominator
        self._dispatcher = dispatcher
        self._latest = latest
        self._missing_nodes = missing_nodes

    def is_gone(self, pod: PodInfo) -> bool:
        """Say whether a pod will not be tried again because it is gone, bound or being deleted."""
        return self._latest(pod) is None

    def reject(self, queued: QueuedPod, attempt: Attempt) -> None:
        """Handle an attempt that found no node."""
        outcome, diagnosis = attempt.outcome, attempt.outcome.diagnosis
        if outcome.error is not None or diagnosis is None:
            no_nodes = diagnosis is not None and not diagnosis.node_count
            self.fail(queued, UNSCHEDULABLE if no_nodes else SCHEDULER_ERROR, outcome.message, nomination="")
            return
        plugins = (diagnosis.unschedulable_plugins, diagnosis.pending_plugins)
        self.fail(queued, UNSCHEDULABLE, outcome.message, *plugins, nomination=outcome.nominated_node_name)

    def fail(
        self,
        queued: QueuedPod,
        reason: str,
        message: str,
        plugins: Iterable[str] = (),
        pending: Iterable[str] = (),
        *,
        nomination: str | None,
        told: str = "",
        waits_out: bool = False,
    ) -> None:
        """Queue a pod again unless it has gone or been bound meanwhile; say why in its condition and an event.

        `nomination` is the node it is nominated to from now on ("" for none, None for no change), `told` the one that
        the API server was last told. With `waits_out` the pod is not tried before its backoff is over.
        """
        if self._missing_nodes is not None:
            self._missing_nodes.look_for(message)
        latest = self._latest(queued.pod)
        if latest is None:
            self._queue.done(queued.pod.uid)
            self._nominator.withdraw(queued.pod.uid)
            return
        queued.pod = latest
        # Read before the pod is queued, which nominates it by its status.
        promised = {told, self._nominator.node_of(latest.uid) or "", latest.status.nominated_node_name}
        self._queue.add_unschedulable(queued, plugins, pending, self._dispatcher.now(), waits_out=waits_out)
        if nomination and not self._queue.reserves_room(queued):  # PreEnqueue keeps it out
            nomination = ""
        if nomination is not None:  # after the queue, which nominates by the pod's status
            self._nominator.nominate(latest, nomination)
        self._dispatcher.tell(pod_event(latest, "Warning", "FailedScheduling", "Scheduling", message))
        # A patch for the nomination alone is due only if the API server may have a different one from that which counts
        # now.
        news = nomination if promised != {nomination} else None
        if not latest.is_told_why(reason, message):
            generation = latest.metadata.generation
            self._dispatcher.tell(PatchPodStatus(PodRef.of(latest), "False", reason, message, news, generation))
        elif news is not None:
            self._dispatcher.tell(PatchPodStatus(PodRef.of(latest), nominated_node_name=news))


class MissingNodes:
    """Removes nodes that an error names as not found from the cache, if the API server does not know them either."""

    __slots__ = ("_dispatcher", "_forget", "_table")

    def __init__(self, table: NodeTable, dispatcher: Dispatcher, forget: Callable[[Node], None]) -> None:
        """`forget` is called with a node that is gone, and must act as if the watch had reported the deletion."""
        self._table = table
        self._dispatcher = dispatcher
        self._forget = forget

    def look_for(self, message: str) -> None:
        """Ask the API server for the node that an error names as missing, if it names one."""
        if (name := missing_node(message)) is not None:
            self._dispatcher.start(self._ask(name))

    def _ask(self, name: str) -> Steps[None]:
        row = self._table.row_of.get(name)
        node = None if row is None else self._table.nodes[row]
        if node is None:
            return
        answer = yield from call(ApiCall("get", "Node", "", name))
        if missing_node(answer.error) == name:
            self._forget(node)


def missing_node(message: str) -> str | None:
    """Return the name of the node that an API server's error reports as not found, or None if it reports none."""
    found = _NOT_FOUND.search(message)
    return None if found is None else found[1]


def pod_event(pod: PodInfo, kind: Literal["Normal", "Warning"], reason: str, action: str, note: str) -> EmitEvent:
    """Return an event about a pod."""
    return EmitEvent(PodRef.of(pod), kind, reason, action, note, pod.spec.scheduler_name)
