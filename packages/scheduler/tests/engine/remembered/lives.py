"""Clusters to which random things happen, and that are asked about pods after each of them."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from berth.api.codec import decode
from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core import questions
from berth.core.assembly import build_core
from berth.core.builders import PodBuilder, make_namespace, make_node, make_pod
from berth.core.options import CoreOptions, with_changed_options
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.registry import IN_TREE, Registry
from berth.plugins.registry import in_tree_registry
from berth.state.pod_info import PodInfo
from berth.testing.invariants import check_cache, check_queue
from packages.scheduler.tests.engine.remembered.afresh import Afresh, asked_afresh
from packages.scheduler.tests.engine.remembered.made_up import KINDS, ZONE, Habits, plugin_of, some_profile
from packages.scheduler.tests.engine.remembered.views import Later, compare_decisions, compare_every_view, internals

APPS = ("x", "y", "z")
SIZES = (1, 2, 5, 5, 9, 9, 9, 9, 20, 20, 24, 62)
"""How many nodes there are: more than sixteen are grouped by kind, and the table has to grow beyond 64 rows."""


class Drawn:
    """The tie breaker: it notes which rows it was given."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.rows: list[int] | None = None

    def __call__(self, rows: Any) -> int:
        self.rows = [int(row) for row in rows]
        return int(rows[self._rng.randrange(len(rows))])


def config_of(habits: list[Habits], *, in_tree: bool, percentage: int | None = None, checks_all: bool = False) -> Any:
    """A configuration of these plugins, beside those without which there is no profile."""
    beside = ["NodeResourcesFit", "DefaultPreemption", "PodTopologySpread"] if in_tree else []
    enabled = [{"name": name} for name in ("PrioritySort", *beside)]
    enabled += [{"name": each.name, "weight": each.weight} for each in habits] + [{"name": "DefaultBinder"}]
    profile = {"plugins": {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}}
    if percentage is not None:
        profile["percentageOfNodesToScore"] = percentage
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    loaded = load_config({**kind, "profiles": [profile]}, "a test's config", feature_gates({}))
    return msgspec.structs.replace(loaded, checks_all_filters=checks_all)


class Life:
    """One cluster. `at_once` lets it bind pods at once, and so place alike ones in runs."""

    def __init__(
        self,
        seed: int,
        *,
        at_once: bool = False,
        habits: list[Habits] | None = None,
        in_tree: bool | None = None,
        size: int = 0,
        is_zoned: bool = False,
    ) -> None:
        self.rng = rng = Random(seed)
        self.habits = habits or some_profile(rng, is_tame=at_once and rng.random() < 0.6)
        in_tree = rng.random() < 0.2 if in_tree is None else in_tree
        checks_all = rng.random() < 0.05
        self.drawn, self.later = Drawn(seed), Later()
        # As guests their answers are looked at more closely, and in one life in ten what they promise, too.
        is_guest, plugins = rng.random() < 0.1, {each.name: plugin_of(each) for each in self.habits}
        self.cluster = VirtualCluster(
            registry=in_tree_registry().merge(Registry(plugins, "a test" if is_guest else IN_TREE)),
            config=config_of(self.habits, in_tree=in_tree, checks_all=checks_all),
            check_promises=int(is_guest),
            build=with_changed_options(build_core, self._drawing),
            seed=seed,
        )
        self.at_once = at_once
        if at_once:
            self.cluster.core.let_bind(self._bound_at_once)
        if rng.random() < 0.15:
            internals.have_little_room(self.cluster.core, rng.choice((2000, 6000)))
        self.births, self.decided, self.in_runs = 0, 0, 0
        self.size, self._unzoned = size or rng.choice(SIZES), 0 if is_zoned else rng.choice((0, 0, 0, 0.1))
        self.templates = [self._template() for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        # Few kinds of things happen in one life, so that what is remembered of the rest has time to become wrong.
        self._acts = rng.sample(self._all_acts(), rng.choice((2, 3, 4, 8)))
        for number in range(self.size):
            self._put_node(f"n{number}")
        self._is_in_attempt = False

    def _drawing(self, options: CoreOptions) -> CoreOptions:
        return replace(options, decisions=replace(options.decisions, break_ties=lambda _table: self.drawn))

    @property
    def plugins(self) -> list[Any]:
        profile = self.cluster.core.profiles["default-scheduler"]
        names = {each.name for each in self.habits}
        return [each.plugin for each in profile.plugins if each.name in names]

    # -- things and pods --

    def _put_node(self, name: str) -> None:
        rng = self.rng
        node = make_node(name).capacity(cpu=rng.choice(("2", "4")), memory="8Gi", pods="20")
        node.label("mode", rng.choice("abc"))
        if rng.random() >= self._unzoned:
            node.label(ZONE, rng.choice(("1", "2", "3")))
        self.cluster.put(node)

    def _template(self) -> PodBuilder:
        rng, app = self.rng, self.rng.choice(APPS)
        pod = make_pod("?").label("app", app).owned_by("ReplicaSet", app).request(cpu=rng.choice(("100m", "500m", "1")))
        pod.priority(rng.choice((0, 0, 5)))
        if rng.random() < 0.3:
            pod.label("tier", rng.choice("st"))
        if rng.random() < 0.05:
            pod.label("private", "yes")
        if rng.random() < 0.2:
            pod.spread(ZONE, {"app": app}, when=rng.choice(("DoNotSchedule", "ScheduleAnyway")))
        return pod

    def _born(self, template: PodBuilder, *, indexed: bool = False) -> PodBuilder:
        self.births += 1
        pod, name = template.copy(), f"p{self.births}"
        pod.metadata.update(name=name, uid=name)
        return pod.label("index", str(self.births % 5)) if indexed else pod

    def _keys(self, kind: str) -> list[str]:
        return sorted(key for of, key in self.cluster.objects if of == kind)

    def _running(self) -> list[str]:
        return sorted(key for (kind, key), o in self.cluster.objects.items() if kind == "Pod" and o.spec.node_name)

    # -- what happens --

    def happen(self) -> None:
        """Let one thing happen."""
        self.rng.choice(self._acts)()

    def _all_acts(self) -> list[Callable[[], None]]:
        return [
            self._nothing, self._pods_come, self._pods_come, self._pods_run, self._pods_leave, self._node_changes,
            self._nodes_change, self._node_goes, self._node_comes, self._pod_changes, self._object_changes,
            self._namespace_changes, self._plugin_learns, self._nominations_change, self._forget, self._breaks,
            self._is_asked_otherwise,
        ]  # fmt: skip

    def _nothing(self) -> None:
        pass

    def _pods_come(self) -> None:
        template, indexed = self.rng.choice(self.templates), self.rng.random() < 0.4
        for _ in range(self.rng.choice((2, 3, 5, 12) if self.at_once else (1, 1, 3, 6))):
            self.cluster.put(self._born(template, indexed=indexed))

    def _pods_run(self) -> None:
        """Another scheduler places some, on nodes that may not be there."""
        names = [*self._keys("Node"), "elsewhere"]
        for _ in range(self.rng.choice((1, 1, 2, 10, 17))):
            pod = self._born(self.rng.choice(self.templates), indexed=self.rng.random() < 0.3)
            self.cluster.put(pod.node(self.rng.choice(names)))

    def _pods_leave(self) -> None:
        keys = self._keys("Pod")
        for key in self.rng.sample(keys, min(len(keys), self.rng.choice((1, 1, 3, 12)))):
            self.cluster.delete("Pod", key)

    def _pod_changes(self) -> None:
        running = self._running()
        if running:
            pod = self.cluster.objects["Pod", self.rng.choice(running)]
            labels = {**pod.metadata.labels, "app": self.rng.choice(APPS)}
            metadata = msgspec.structs.replace(pod.metadata, labels=labels)
            self.cluster.put(msgspec.structs.replace(pod, metadata=metadata))

    def _node_changes(self) -> None:
        if names := self._keys("Node"):
            self._put_node(self.rng.choice(names))

    def _nodes_change(self) -> None:
        names = self._keys("Node")
        for name in self.rng.sample(names, min(len(names), self.rng.choice((3, 9, 17)))):
            self._put_node(name)

    def _node_goes(self) -> None:
        names = self._keys("Node")
        if len(names) > 1:
            name = self.rng.choice(names)
            self.cluster.delete("Node", name)
            if self.rng.random() < 0.3:  # another of the same name
                self._put_node(name)

    def _node_comes(self) -> None:
        for _ in range(self.rng.choice((1, 1, 3))):
            self.births += 1
            self._put_node(f"m{self.births}")

    def _object_changes(self) -> None:
        kind, name = self.rng.choice(KINDS), self.rng.choice("ab")
        if (kind, name) in self.cluster.objects and self.rng.random() < 0.4:
            self.cluster.delete(kind, name)
            return
        self.births += 1
        meta = {"name": name, "uid": f"{kind}-{name}", "labels": {"turn": str(self.births)}}
        content = {"value": 1} if kind == "PriorityClass" else {"provisioner": "example.com/none"}
        self.cluster.put(decode(kind, {"metadata": meta, **content}))

    def _namespace_changes(self) -> None:
        self.cluster.put(make_namespace("default", {"env": self.rng.choice(("prod", "test"))}))

    def _plugin_learns(self) -> None:
        """A plugin comes to know something that no object says, and tells of it as it must."""
        plugin, name = self.rng.choice(self.plugins), self.rng.choice(self._keys("Node"))
        plugin.mood += 1
        what = self.rng.random()
        if what < 0.5:
            plugin.secrets[name] = plugin.secrets.get(name, 0) + 1
            plugin.handle.node_changed(name)
        elif what < 0.8:
            plugin.reserved[name] = plugin.reserved.get(name, 0) + 1
            plugin.handle.reservation_changed(plugin.name)

    def _nominations_change(self) -> None:
        nominator, name = self.cluster.core.nominator, self.rng.choice((*self._keys("Node"), "elsewhere"))
        for _ in range(self.rng.choice((1, 1, 4, 8))):
            promised = self._born(self.rng.choice(self.templates)).priority(self.rng.choice((0, 5, 9))).info()
            nominator.nominate(promised, name)
            name = self.rng.choice(self._keys("Node"))
        if self.rng.random() < 0.5:
            for uid in [pod.uid for node in list(nominator.nodes()) for pod in nominator.pods_on(node)][::2]:
                nominator.withdraw(uid)

    def _forget(self) -> None:
        internals.forget(self.cluster.core)

    def _breaks(self) -> None:
        """A plugin raises while somebody asks, and does not any more afterwards."""
        plugin = self.rng.choice(self.plugins)
        plugin.breaks = True
        with self.cluster.core.memos.switched(on=True):
            for pod in self._asked_about():
                self._ask_quietly(pod)
        plugin.breaks = False

    def _ask_quietly(self, pod: PodInfo) -> None:
        questions.choose(self.cluster.core, pod, search=questions.search_beside(self.cluster.core), on_bug=str)

    def _is_asked_otherwise(self) -> None:
        """For a while nothing is remembered."""
        with self.cluster.core.memos.switched(on=False):
            for pod in self._asked_about():
                self._ask_quietly(pod)

    # -- what is compared --

    def _asked_about(self) -> list[PodInfo]:
        info = self.cluster.core.intake.info
        pods = [info(self._born(template, indexed=self.rng.random() < 0.3).build()) for template in self.templates]
        return self.rng.sample(pods, self.rng.randint(1, len(pods)))

    def live(self, steps: int) -> "Life":
        """Let so many things happen, and compare after each."""
        for _ in range(steps):
            for _ in range(self.rng.choice((0, 1, 1)) if self.at_once else self.rng.choice((1, 1, 2))):
                self.happen()
            if self.at_once and self.rng.random() < 0.9:
                self._pods_come()
            if self.rng.random() < 0.7:
                self.decide(self.rng.choice((1, 2, 8)))
            for pod in self._asked_about() if self.rng.random() < (0.2 if self.at_once else 0.6) else ():
                compare_every_view(self.cluster.core, pod, self.rng, self.later if self.rng.random() < 0.3 else None)
                if self.rng.random() < 0.3:
                    compare_decisions(self.cluster, pod, self.rng.randrange(100))
        self.later.hold()
        check_cache(self.cluster.core.cache)
        check_queue(self.cluster.core.queue)
        return self

    def decide(self, most: int) -> None:
        """Let the core decide about some of the pods that wait, each as it should."""
        core = self.cluster.core
        for _ in range(most):
            core.queue.flush(self.cluster.now)
            queued = core.queue.peek()
            if queued is None:
                return
            expected = asked_afresh(core, queued.pod)
            self.drawn.rows, self._is_in_attempt = None, True
            decided = self.decided
            self.cluster.step()
            if not self.at_once:
                self._compare_decision(queued.pod, expected)
            self.in_runs += max(0, self.decided - decided - 1)

    def _compare_decision(self, pod: PodInfo, expected: Afresh) -> None:
        self.decided += 1
        decision = self.cluster.core.trace[pod.key]
        chosen = self.cluster.nodes_of().get(pod.name, "")
        names = self.cluster.core.cache.table.names
        if len(expected.feasible) == 1:
            assert chosen == names[expected.feasible[0]]
        elif expected.error is not None or not expected.feasible:
            assert not chosen
            assert decision.message.startswith(expected.error or expected.message)
        else:
            assert self.drawn.rows == expected.best
            assert chosen in {names[row] for row in expected.best}

    def _bound_at_once(self, pod: PodInfo, node_name: str) -> Any:
        """Bind a pod of which nothing else has come yet: so what was decided is still as it should be."""
        expected, names = asked_afresh(self.cluster.core, pod), self.cluster.core.cache.table.names
        self.decided += 1
        assert expected.error is None or len(expected.feasible) == 1
        assert node_name in {names[row] for row in (expected.best or expected.feasible)}
        if len(expected.feasible) > 1:
            assert self.drawn.rows == expected.best
        self.drawn.rows = None
        return self.cluster.bind_at_once(pod, node_name)
