"""A queue with a few plugins' registrations, and where its pods are."""

import msgspec

from berth.core.builders import make_pod
from berth.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    QueueingHint,
)
from berth.framework.status import unresolvable
from berth.queue.hints import Registered, WakeTable
from berth.queue.move_requests import MoveRequestQueue
from berth.queue.policy import V1_20_QUEUE, QueuePolicy
from berth.queue.queue import SchedulingQueue
from berth.state.nominator import Nominator
from berth.testing.invariants import check_queue

LABEL_CHANGE = ClusterEvent("Pod", Action.UPDATE_POD_LABEL, "PodLabelChange")
GATES_GONE = ClusterEvent("Pod", Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
UNSCHEDULABLE_AGE_S, FLUSH_S, WINDOW_S = 300.0, 30.0, 1.0


def always(pod, old, new):
    return QueueingHint.QUEUE


def never(pod, old, new):
    return QueueingHint.SKIP


def broken(pod, old, new):
    raise RuntimeError("a hint's bug")


def gates(pod, first=""):
    return unresolvable("gated").by("Gates") if pod.spec.scheduling_gates else None


def move_request_queue(incoming=None, **policy):
    """A queue of v1.20, with its times unless told otherwise."""
    return MoveRequestQueue(
        sort_key=lambda queued: (-queued.pod.priority, queued.timestamp),
        pre_enqueue=lambda pod, first: None,
        tables={},
        nominator=Nominator(),
        policy=msgspec.structs.replace(V1_20_QUEUE, **policy),
        on_incoming=(lambda *entry: incoming.append(entry[:2])) if incoming is not None else lambda *_: None,
    )


def queue(*registered, pop_from_backoff=False, pre_enqueue=gates, incoming=None, makes_room=(), **policy):
    table = WakeTable(
        [
            Registered("Fit", NODE_ADD, None),
            Registered("Fit", ASSIGNED_POD_DELETE, None),
            Registered("Spread", NODE_ADD, never),
            Registered("Buggy", NODE_ADD, broken),
            Registered("Gates", GATES_GONE, always),
            Registered("Labels", LABEL_CHANGE, None),
            *registered,
        ],
        makes_room,
    )
    return SchedulingQueue(
        sort_key=lambda queued: (-queued.pod.priority, queued.timestamp),
        pre_enqueue=pre_enqueue,
        tables={"default-scheduler": table},
        nominator=Nominator(),
        policy=QueuePolicy(pop_from_backoff=pop_from_backoff, **policy),
        on_incoming=(lambda *entry: incoming.append(entry[:2])) if incoming is not None else lambda *_: None,
    )


def pod(name="a"):
    return make_pod(name)


def failed(found, name="a", *plugins, pending=(), now=0.0):
    """Add a pod, pop it and give it back as rejected by these plugins."""
    found.add(pod(name).info(), now)
    queued = found.pop(now)
    found.add_unschedulable(queued, plugins, pending, now)
    check_queue(found)
    return queued


def place(found, uid="default/a"):
    check_queue(found)
    places = {
        "active": uid in found.active,
        "backoff": uid in found.backoff,
        "error backoff": uid in found.error_backoff,
        "unschedulable": uid in found.unschedulable,
        "in flight": uid in found.in_flight,
    }
    return next((name for name, is_there in places.items() if is_there), None)


def in_flight(found):
    found.add(pod().info(), 0.0)
    return found.pop(0.0)
