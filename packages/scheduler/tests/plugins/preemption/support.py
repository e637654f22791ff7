"""A small cluster in which one pod at a time asks others to go."""

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.testing.invariants import decide


def budget(name, labels, allowed, namespace="default", disrupted=()):
    """A PodDisruptionBudget as the API server has it."""
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    spec = {"selector": {"matchLabels": labels}} if labels is not None else {}
    meta = {"name": name, "namespace": namespace}
    return decode("PodDisruptionBudget", {"metadata": meta, "spec": spec, "status": status})


def running(name, node, cpu="1", priority=0, started=None, **labels):
    """A pod that runs on a node; `started` is a day of January."""
    pod = make_pod(name).node(node).priority(priority).request(cpu=cpu).labels(labels)
    return pod if started is None else pod.set_status(startTime=f"2026-01-{started:02d}T00:00:00Z")


def nodes(*names, cpu="4"):
    return [make_node(name).capacity(cpu=cpu, memory="8Gi", pods="10") for name in names]


def preemption(*objects, pod, memos=True, config=None):
    """The node that is freed for a pod and who leaves it, sorted; None where there is none. And what is said."""
    cluster = VirtualCluster(*objects, memos=memos, config=config)
    attempt = decide(cluster.core, pod.info(), memos=memos)
    victims = sorted(victim.name for victim in attempt.outcome.victims)
    return ((attempt.outcome.nominated_node_name, victims) if victims else None), attempt.outcome.message
