"""What happens in a history, drawn from its seed before it begins: a list of things, each with its moment.

A plan is data, so that a failing history can be lived again with some of its things left out. The first half of the
kinds is what people and machines do to a cluster anyway; the second is faults.
"""

import math
import random
from typing import NamedTuple

from tests.faults.wire import STATUSES, WRITES, Trouble

NODES = tuple(f"node-{index}" for index in range(6))
PODS = tuple(f"p{index}" for index in range(30))
PRIORITIES = {"low": 0, "mid": 10, "high": 100}
ZONES = ("a", "b")
END_S = 90.0
"""When the last fault begins, at the latest; each lasts for at most `LONGEST_S`."""
LONGEST_S = 45.0
LAGS_S = (0.0, 0.0, 0.0, 0.06, 0.4, 10.0, 60.0)
"""How late the watch of pods may be."""

NOT_ENABLED = frozenset({"start again"})
"""What the scheduler does not withstand yet: a server whose resourceVersions start again, which no API server does."""

EVERY = ()
NETWORK = (
    ("refused", EVERY, EVERY), ("request lost", EVERY, EVERY), ("answer lost", WRITES, EVERY),
    ("answer lost", ("bind",), EVERY), ("request lost", ("bind",), EVERY), ("error", EVERY, EVERY),
    ("error", ("bind",), EVERY), ("error after", WRITES, EVERY), ("error after", ("bind",), EVERY),
    ("slow", EVERY, EVERY), ("slow", ("bind",), EVERY), ("request stalled", EVERY, EVERY),
    ("request stalled", ("bind", "get"), EVERY), ("answer stalled", WRITES, EVERY), ("garbled", EVERY, EVERY),
    ("garbled", ("list", "get"), EVERY), ("repeated", WRITES, EVERY), ("repeated", ("bind",), EVERY),
    ("untrue", ("bind",), EVERY), ("error", ("get", "create", "update"), ("leases",)),
    ("request stalled", ("get", "create", "update"), ("leases",)), ("answer lost", ("update",), ("leases",)),
)  # fmt: skip
"""What goes wrong with requests: what, the verbs, the resources."""
STREAMS = (
    ("lines", "lines cut"), ("lines", "lines garbled"), ("lines", "lines repeated"), ("lines", "lines expired"),
    ("lines", "lines stalled"), ("lines", "lines silent"), ("lines", "slow"), ("lines", "watch ended"),
    ("lines", "lines lost"), ("lines", "lines swapped"), ("watch", "watch reset"), ("watch", "refused"),
    ("watch", "error"), ("watch", "request stalled"), ("watch", "gone"),
)  # fmt: skip
"""What goes wrong with watches: while lines come, or when they are opened."""
POINTS = (
    "pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score", "normalize_score", "reserve",
    "unreserve", "permit", "pre_bind_pre_flight", "pre_bind", "post_bind", "hint",
    "pod_added", "pod_updated", "pod_removed",
)  # fmt: skip
"""Where the plugin of a history raises."""


class Thing(NamedTuple):
    """Something that happens: `what` is a method of `History`."""

    at: float
    what: str
    args: tuple = ()

    def __str__(self):
        return f"{self.at:8.3f}  {self.what}{self.args}"


class Plan(NamedTuple):
    """One history, before it is lived."""

    seed: int
    candidates: int
    """How many processes elect a leader; 0: one process that elects nobody."""
    has_plugin: bool
    has_extender: bool
    extender_binds: bool
    has_groups: bool
    unschedulable_age_s: float | None
    things: tuple
    """By moment."""
    lag_s: float = 0.0
    """How late every change of a pod is shown by its watch."""
    qps: float = 0.0
    """How many writes each process lets itself send a second; 0: any number."""

    def without(self, things):
        """The same history, without these things."""
        left_out = {id(thing) for thing in things}
        return self._replace(things=tuple(thing for thing in self.things if id(thing) not in left_out))

    def __str__(self):
        head = (
            f"seed {self.seed}: {self.candidates or 'no'} candidates, plugin {self.has_plugin}, extender "
            f"{self.has_extender} (binds {self.extender_binds}), groups {self.has_groups}, "
            f"unschedulable for at most {self.unschedulable_age_s} s, the watch of pods {self.lag_s:g} s late, "
            f"{self.qps or 'any number of'} writes a second"
        )
        return "\n".join((head, *map(str, self.things)))


def plan_of(seed, faults=None):
    """The plan of this seed; with `faults`, these kinds of fault instead of those that the seed would choose."""
    rng = random.Random(f"plan {seed}")
    candidates = rng.choice((0, 0, 1, 2))
    kinds = FAULTS if not NOT_ENABLED else {kind: draw for kind, draw in FAULTS.items() if kind not in NOT_ENABLED}
    chosen = faults or rng.sample(sorted(kinds), rng.choice((1, 2, 2, 3, 4)))
    plan = Plan(
        seed=seed,
        candidates=max(candidates, 1 if "leases" in chosen else 0),
        has_plugin="plugins" in chosen,
        has_extender="extenders" in chosen or rng.random() < 0.05,
        extender_binds=rng.random() < 0.5,
        has_groups=rng.random() < 0.15,
        unschedulable_age_s=None if "plugins" in chosen else rng.choice((None, math.inf)),
        things=(),
        lag_s=random.Random(f"lag {seed}").choice(LAGS_S),
        qps=random.Random(f"qps {seed}").choice((0.0, 0.0, 0.0, 2.0, 20.0)),
    )
    things = [*_cluster(rng), *_life(rng, plan)]
    for kind in chosen:
        for _ in range(rng.choice((1, 1, 2, 3))):
            things += FAULTS[kind](rng, plan)
    enabled = [thing for thing in things if _is_enabled(thing)]
    return plan._replace(things=tuple(sorted(enabled, key=lambda thing: thing.at)))


def _is_enabled(thing):
    return not any(getattr(arg, "what", None) in NOT_ENABLED for arg in thing.args)


# -- what happens anyway -------------------------------------------------------------------------------------------


def _cluster(rng):
    for name in NODES[: rng.randint(2, 6)]:
        yield Thing(0.0 if rng.random() < 0.8 else rng.uniform(0, 30), "add_node", (name, _size(rng)))


def _size(rng):
    """CPU, pods and zone of a node."""
    return rng.choice(("1", "2", "4")), rng.choice((3, 8, 110)), rng.choice(ZONES)


def _life(rng, plan):
    for name in PODS[: rng.randint(5, 30)]:
        at = rng.choice((0.0, rng.uniform(0, 3), rng.uniform(0, END_S)))
        yield Thing(at, "add_pod", (name, _wishes(rng, plan)))
        if rng.random() < 0.15:
            yield Thing(at + rng.choice((rng.uniform(0, 0.1), rng.uniform(0, 40))), "delete_pod", (name,))
            if rng.random() < 0.5:
                yield Thing(at + rng.uniform(0, 60), "add_pod", (name, _wishes(rng, plan)))
    for name in ("c0", "c1", "c2"):
        if rng.random() < 0.8:
            yield Thing(rng.uniform(0, 20), "add_claim", (name,))
    for name in ("d0", "d1"):
        if rng.random() < 0.8:
            yield Thing(rng.uniform(0, 20), "add_device_claim", (name,))
    if rng.random() < 0.2:
        yield Thing(rng.uniform(0, 30), "add_replica_set", (rng.randint(1, 6),))
    if plan.has_groups:
        size = rng.randint(2, 4)
        yield Thing(rng.uniform(0, 20), "add_group", ("g", size))
        for index in range(size):
            yield Thing(rng.uniform(0, 40), "add_pod", (f"g-{index}", {"cpu": "300m", "group": "g"}))


def _wishes(rng, plan):
    """What a pod asks for."""
    wishes = {
        "cpu": rng.choice(("100m", "300m", "700m", "1500m")),
        "priority": rng.choice(("low", "low", "mid", "high")),
    }
    if rng.random() < 0.1:
        wishes["port"] = 8080
    if rng.random() < 0.15:
        wishes["claim"] = rng.choice(("c0", "c1", "c2"))
    if rng.random() < 0.1:
        wishes["devices"] = rng.choice(("d0", "d1"))
    if rng.random() < 0.1:
        wishes["zone"] = rng.choice(ZONES)
    if rng.random() < 0.1:
        wishes["alone"] = True
    if rng.random() < 0.1:
        wishes["gate"] = True
    return wishes


# -- faults --------------------------------------------------------------------------------------------------------


def _length(rng):
    return rng.choice((0.3, 3.0, LONGEST_S)) * rng.random()


def _network(rng, plan):
    what, verbs, plurals = rng.choice(NETWORK)
    at = rng.choice((0.0, rng.uniform(0, 5), rng.uniform(0, END_S)))
    status = rng.choice([status for status in STATUSES if what == "error" or status in (500, 502, 504)])
    trouble = Trouble(what, verbs, plurals, at + _length(rng), rng.choice((0.1, 0.5, 1.0)), status)
    yield Thing(at, "trouble", (rng.randrange(2), trouble))


def _streams(rng, plan):
    verb, what = rng.choice(STREAMS)
    plurals = rng.choice(((), ("pods",), ("nodes",), ("persistentvolumeclaims", "resourceclaims")))
    at = rng.choice((0.0, rng.uniform(0, 5), rng.uniform(0, END_S)))
    status = rng.choice((403, 429, 500, 503))
    trouble = Trouble(what, (verb,), plurals, at + rng.uniform(1.0, LONGEST_S), rng.choice((0.1, 0.5, 1.0)), status)
    yield Thing(at, "trouble", (rng.randrange(2), trouble))


def _leases(rng, plan):
    choices = [fault for fault in NETWORK if fault[2]]
    what, verbs, plurals = rng.choice(choices)
    at = rng.uniform(0, END_S)
    trouble = Trouble(what, verbs, plurals, at + _length(rng), 1.0, rng.choice((403, 429, 500)))
    yield Thing(at, "trouble", (rng.randrange(2), trouble))


def _server(rng, plan):
    at = rng.uniform(0, END_S)
    yield Thing(at, "server_down")
    yield Thing(at + _length(rng), "server_up", (rng.choice(("", "", "forgets", "start again")),))


def _pause(rng, plan):
    yield Thing(rng.uniform(0, END_S), "pause", (rng.randrange(2), rng.choice((0.5, 8.0, 14.0, 16.0, 31.0, 45.0))))


def _kill(rng, plan):
    at = rng.choice((rng.uniform(0, 5), rng.uniform(0, END_S)))
    when = rng.choice(("now", "before", "after"))
    verbs = rng.choice((WRITES, ("bind",), ("bind",), ("patch",), ("delete",)))
    yield Thing(at, "kill", (rng.randrange(2), when, verbs))


def _stop(rng, plan):
    yield Thing(rng.uniform(0, END_S), "stop", (rng.randrange(2),))


def _clock(rng, plan):
    yield Thing(
        rng.uniform(0, END_S), "set_clock", (rng.randrange(2), rng.choice((-86400.0, -60.0, 60.0, 3600.0, 1e7)))
    )


def _nodes(rng, plan):
    name = rng.choice(NODES[:3])
    at = rng.uniform(0, END_S)
    kind = rng.choice(("flap", "flap", "taint", "cordon"))
    if kind == "flap":
        yield Thing(at, "delete_node", (name,))
        yield Thing(at + rng.choice((0.001, 1.0, 30.0, 60.0)), "add_node", (name, _size(rng)))
    elif kind == "taint":
        yield Thing(at, "taint", (name, rng.choice(("NoSchedule", "NoExecute"))))
        yield Thing(at + _length(rng), "untaint", (name,))
    else:
        yield Thing(at, "cordon", (name, True))
        yield Thing(at + _length(rng), "cordon", (name, False))


def _pods(rng, plan):
    at = rng.uniform(0, END_S)
    for name in rng.sample(PODS[:10], 5):
        yield Thing(at + rng.uniform(0, 0.05), "delete_pod", (name,))
        if rng.random() < 0.5:
            yield Thing(at + rng.uniform(0.001, 0.1), "add_pod", (name, _wishes(rng, plan)))


def _claims(rng, plan):
    kind, name = rng.choice((("PersistentVolumeClaim", "c0"), ("PersistentVolumeClaim", "c1"), ("ResourceClaim", "d0")))
    at = rng.uniform(0, END_S)
    yield Thing(at, "delete_object", (kind, name))
    yield Thing(at + rng.uniform(0.1, 20), "add_claim" if name[0] == "c" else "add_device_claim", (name,))


def _plugins(rng, plan):
    at = rng.choice((0.0, rng.uniform(0, END_S)))
    yield Thing(at, "raise_in", (rng.choice(POINTS), at + _length(rng), rng.choice((0.2, 1.0))))


def _extenders(rng, plan):
    at = rng.choice((0.0, rng.uniform(0, END_S)))
    what = rng.choice(("hang", "error", "garbage", "unreachable", "slow", "answer lost"))
    yield Thing(at, "break_extender", (what, at + _length(rng), rng.choice((0.3, 1.0))))


FAULTS = {
    "network": _network, "network again": _network, "streams": _streams, "streams again": _streams, "leases": _leases,
    "server": _server, "pause": _pause, "kill": _kill, "stop": _stop, "clock": _clock, "nodes": _nodes, "pods": _pods,
    "claims": _claims, "plugins": _plugins, "extenders": _extenders,
}  # fmt: skip
"""Kinds of fault, each a function that draws the things it consists of."""
