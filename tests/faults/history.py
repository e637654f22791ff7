"""One history: a cluster, the schedulers on it, everything that happens to them, and what must be true at the end.

`live(plan)` lives it and raises `HistoryFailed`, which tells the story, if something is wrong at the end or was on the
way. While faults last nothing is promised but what must never happen; afterwards, within `REST_S`, everything is.
"""

import contextlib
import logging
import random
from collections import Counter

import msgspec

from berth.api.quantity import milli_value
from berth.api.resources import RESOURCES
from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.framework.effects import ExtenderAnswer
from berth.framework.registry import Registry
from berth.plugins.registry import full_registry
from berth.runtime.observing.logs import as_text
from berth_cluster.hollow.template import NodeTemplate, node_object
from berth_cluster.storage.store import own
from tests.faults import checks
from tests.faults.broken import BrokenExtender, broken_plugin
from tests.faults.plan import LONGEST_S, NOT_ENABLED, PRIORITIES
from tests.faults.process import Process
from tests.faults.server import Server
from tests.faults.simulation import OutOfBudgetError, Simulation

REST_S = 900.0
"""How long after the last fault everything must have come to rest, at the latest."""
PATIENCE_S = 700.0
"""How long it may take until the flush of unschedulable pods, or two comparisons with the server, have set right what
no event told of."""
LOOK_S = 5.0
"""How often it is looked whether it has."""
GATES = {"GenericWorkload": True, "GangScheduling": True}
REGISTRY = full_registry()


class HistoryFailed(AssertionError):  # noqa: N818 - it says what happened
    """What is wrong, and the story of how it came about."""


def configuration(plan):
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": plan.candidates > 0},
    }
    profile = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "0s"}}],
    }
    if plan.has_plugin:
        profile["plugins"] = {"multiPoint": {"enabled": [{"name": "Broken"}]}}
    if plan.has_extender:
        verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
        if plan.extender_binds:
            verbs["bindVerb"] = "bind"
        document["extenders"] = [{"urlPrefix": "http://extender.test", "httpTimeout": "5s", **verbs}]
    document["profiles"] = [profile]
    return load_config(document, "the history's configuration", feature_gates(GATES if plan.has_groups else {}))


class History:
    """A plan being lived."""

    def __init__(self, plan):
        self.plan = plan
        self.rng = random.Random(f"run {plan.seed}")
        self.sim = Simulation()
        self.harm = Counter()
        self.config = configuration(plan)
        self.server = Server(self.sim, random.Random(self.rng.random()))
        self.raising = {}
        """By extension point, until when the plugin raises there, and how often."""
        self.extender_trouble = ("", 0.0, 0.0)
        for name, value in PRIORITIES.items():
            self.server.create("PriorityClass", {"metadata": {"name": name}, "value": value})
        self.processes = [Process(self, f"scheduler-{index}") for index in range(max(1, plan.candidates))]
        self.sim.processes = self.processes
        self._is_logging = True

    # -- its course ----------------------------------------------------------------------------------------------

    def live(self):
        """Live it; raises `HistoryFailed`."""
        handler = _Handler(self)
        with handler.attached():
            try:
                self._live()
            except OutOfBudgetError as error:
                self.fail([str(error)])
            finally:
                with self.unlogged():
                    for process in self.processes:
                        if process.is_alive:
                            process._bury()
        return self

    def _live(self):
        for thing in self.plan.things:
            self.sim.at(thing.at, self._happen, thing)
        for process in self.processes:
            self.sim.at(self.rng.uniform(0.0, 0.5), process.start)
        self.sim.run_until(max((thing.at for thing in self.plan.things), default=0.0) + 0.1)
        ends = [trouble.until for process in self.processes for trouble in process.troubles]
        self.sim.run_until(max([self.sim.now, *ends]))
        self._end_faults()
        self._come_to_rest()
        problems = list(checks.problems(self))
        if problems:
            self.sim.run_until(self.sim.now + PATIENCE_S)
            self._come_to_rest()
            problems = list(checks.problems(self))
        if problems := [*self.sim.violations, *problems]:
            self.fail(problems)

    def _happen(self, thing):
        self.sim.tell("history", "%s%s", thing.what, thing.args)
        getattr(self, thing.what)(*thing.args)

    def _end_faults(self):
        self.sim.tell("history", "all faults are over")
        self.server.come_up()
        self.raising.clear()
        self.extender_trouble = ("", 0.0, 0.0)
        for process in self.processes:
            process.troubles.clear()
            process.kill_at = None
            process.paused_until = 0.0
        for pod in self.server.pods():
            if pod["spec"].get("schedulingGates"):
                self.server.change("Pod", pod["metadata"]["name"], ungate)

    def _come_to_rest(self):
        end = self.sim.now + REST_S
        while (unsettled := checks.unsettled(self)) and self.sim.now < end:
            if self.sim.violations:
                self.fail(self.sim.violations)
            self.sim.run_until(self.sim.now + LOOK_S)
        if unsettled:
            self.fail([f"not at rest {REST_S:g} s after the last fault: {'; '.join(unsettled)}"])

    def fail(self, problems):
        lines = [*problems[:12], "", "the plan:", str(self.plan), "", "the story:", *self.sim.told()]
        raise HistoryFailed("\n".join(lines))

    # -- what processes ask --------------------------------------------------------------------------------------

    def registry(self):
        return REGISTRY.merge(Registry(self.named_plugins(), "a history")) if self.plan.has_plugin else REGISTRY

    def named_plugins(self):
        return {"Broken": broken_plugin(self)} if self.plan.has_plugin else {}

    def extender_client(self, process):
        return BrokenExtender(self, process) if self.plan.has_extender else None

    def answer_extender(self, call):
        """What the extender says to a core that is not in a process of the history."""
        return ExtenderAnswer(msgspec.json.encode(BrokenExtender(self, None).answer(call)))

    def is_enabled(self, what):
        return what not in NOT_ENABLED

    def lease(self):
        """Who holds the lease by the server's record, when that was written, and how long it is good for."""
        return self.server.lease

    @property
    def leader(self):
        """The process that schedules; None where there is none, or more than one."""
        leading = [
            process for process in self.processes if process.scheduler is not None and process.scheduler.is_leading
        ]
        return leading[0] if len(leading) == 1 else None

    @contextlib.contextmanager
    def unlogged(self):
        """What is logged now is of a process that nobody can see any more."""
        before, self._is_logging = self._is_logging, False
        try:
            yield
        finally:
            self._is_logging = before

    # -- what happens anyway -------------------------------------------------------------------------------------

    def add_node(self, name, size):
        cpu, pods, zone = size
        template = NodeTemplate(cpu=cpu, pods=pods, zones=(zone,))
        self.server.create("Node", node_object(template, int(name.rpartition("-")[2]), self.server.wall().timestamp()))

    def grow(self, name):
        """Give a node a little more to allocate: far too little for a pod, but an event that may wake one."""
        node = own(self.server.find("Node", name))
        cpu_milli = milli_value(node["status"]["allocatable"]["cpu"]) + 1
        node["status"]["allocatable"]["cpu"] = f"{cpu_milli}m"
        self.server.store.update(RESOURCES["Node"], "", name, node, "status")

    def delete_node(self, name):
        self.harm["node deleted"] += 1
        self.server.delete("Node", name)

    def add_pod(self, name, wishes):
        container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": wishes["cpu"], "memory": "64Mi"}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        if "priority" in wishes:
            spec["priorityClassName"] = wishes["priority"]
        if "port" in wishes:
            container["ports"] = [{"containerPort": 80, "hostPort": wishes["port"]}]
        if "claim" in wishes:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": wishes["claim"]}}]
        if "devices" in wishes:
            spec["resourceClaims"] = [{"name": "dev", "resourceClaimName": wishes["devices"]}]
            container["resources"]["claims"] = [{"name": "dev"}]
        if "zone" in wishes:
            spec["nodeSelector"] = {"topology.kubernetes.io/zone": wishes["zone"]}
        if "alone" in wishes:
            term = {"labelSelector": {"matchLabels": {"alone": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if "gate" in wishes:
            spec["schedulingGates"] = [{"name": "hold"}]
        if "group" in wishes:
            spec["schedulingGroup"] = {"podGroupName": wishes["group"]}
        labels = {"alone": "yes"} if "alone" in wishes else {}
        self.server.create("Pod", {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def delete_pod(self, name):
        self.harm["pod deleted"] += 1
        self.server.delete("Pod", name)

    def remove_pod(self, name):
        """Delete a pod at once, whether it runs or not."""
        self.server.delete("Pod", name, {"gracePeriodSeconds": 0})

    def delete_object(self, kind, name):
        self.harm["object deleted"] += 1
        self.server.delete(kind, name)

    def add_claim(self, name):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "standard",
        }
        self.server.create("PersistentVolumeClaim", {"metadata": {"name": name}, "spec": spec})

    def add_device_claim(self, name):
        request = {
            "name": "r",
            "exactly": {"deviceClassName": "gpu.berth.dev", "allocationMode": "ExactCount", "count": 1},
        }
        self.server.create("ResourceClaim", {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})

    def add_replica_set(self, count):
        container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "200m"}}}
        template = {
            "metadata": {"labels": {"app": "set"}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        spec = {"replicas": count, "selector": {"matchLabels": {"app": "set"}}, "template": template}
        self.server.store.create(RESOURCES["ReplicaSet"], "default", {"metadata": {"name": "set"}, "spec": spec})

    def add_group(self, name, size):
        spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
        self.server.create("PodGroup", {"metadata": {"name": name}, "spec": spec})

    # -- faults --------------------------------------------------------------------------------------------------

    def _process(self, index):
        return self.processes[index % len(self.processes)]

    def trouble(self, index, trouble):
        self._process(index).troubles.append(trouble)

    def server_down(self):
        self.harm["server down"] += 1
        self.server.go_down()

    def server_up(self, how):
        if how:
            self.harm[f"server {how}"] += 1
        if how == "forgets":
            self.server.forget_history()
        elif how == "start again" and self.is_enabled("start again"):
            self.server.start_again()
        self.server.come_up()

    def pause(self, index, seconds):
        self.harm["pause"] += 1
        self._process(index).pause(seconds)

    def kill(self, index, when, verbs):
        process = self._process(index)
        if when == "now":
            self.harm["killed"] += 1
            process.kill()
        else:
            process.kill_at = (when, verbs)

    def stop(self, index):
        self.harm["stop"] += 1
        self._process(index).tell_to_stop()

    def set_clock(self, index, seconds):
        self.harm["clock"] += 1
        self._process(index).skew_s += seconds

    def taint(self, name, effect):
        self.harm["taint"] += 1
        taint = {"key": "node.kubernetes.io/not-ready", "effect": effect}
        self.server.change("Node", name, lambda node: node["spec"].update(taints=[taint]))

    def untaint(self, name):
        self.server.change("Node", name, lambda node: node["spec"].pop("taints", None))

    def cordon(self, name, is_on):
        self.harm["cordon"] += 1
        self.server.change("Node", name, lambda node: node["spec"].update(unschedulable=is_on))

    def raise_in(self, point, until, chance):
        self.raising[point] = (until, chance)

    def break_extender(self, what, until, chance):
        self.extender_trouble = (what, until, chance)


def ungate(pod):
    pod["spec"].pop("schedulingGates", None)


class _Handler(logging.Handler):
    """Puts what the schedulers log into the story, and holds bugs against them."""

    def __init__(self, history):
        super().__init__(logging.INFO)
        self._history = history

    @contextlib.contextmanager
    def attached(self):
        loggers = [logging.getLogger("berth"), logging.getLogger("asyncio")]
        before = [(logger.level, logger.propagate) for logger in loggers]
        for logger in loggers:
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        try:
            yield
        finally:
            for logger, (level, propagate) in zip(loggers, before, strict=True):
                logger.removeHandler(self)
                logger.setLevel(level)
                logger.propagate = propagate

    def emit(self, record):
        history = self._history
        if not history._is_logging:
            return
        who = history.sim.current.name if history.sim.current is not None else "log"
        text = as_text(record)
        history.sim.tell(who, "%s: %s", record.levelname, text)
        if record.levelno >= logging.ERROR and (record.exc_info or "bug" in text):
            is_expected = "planned: " in text or (record.exc_info and "planned: " in str(record.exc_info[1]))
            if not is_expected:
                formatted = logging.Formatter().format(record)
                history.sim.accuse(f"an error was logged: {formatted}")


def live(plan):
    """Live a plan; raises `HistoryFailed`."""
    return History(plan).live()


__all__ = ["LONGEST_S", "History", "HistoryFailed", "live"]
