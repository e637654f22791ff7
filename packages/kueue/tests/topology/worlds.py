"""Small clusters with a topology, for tests that look at every placement there could be."""

from berth.api.codec import decode
from berth_kueue.topology.forest import TopologyForest
from berth_kueue.topology.placing import PodSetPlacing

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)


def topology(levels=LEVELS, name="default"):
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


def flavor(name="tas", labels=None, **spec):
    return {"metadata": {"name": name}, "spec": {"topologyName": "default", "nodeLabels": labels or {}, **spec}}


def node(block, rack, number, cpu="4", pods="110", labels=None, **spec):
    name = f"{block}-{rack}-{number}"
    placed = {"block": block, "rack": rack, HOST: name}
    status = {"allocatable": {"cpu": cpu, "pods": pods}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": placed | (labels or {})}, "spec": spec, "status": status}


def forest(nodes, levels=LEVELS, gates=None, **flavor_spec):
    made = TopologyForest(gates)
    made.set_topology(topology(levels))
    made.set_flavor(flavor(**flavor_spec))
    for each in nodes:
        made.set_node(each)
    return made


def pod_set(count, cpu=1000, name="main", request=None, is_implied=False, **spec):
    return PodSetPlacing(
        name, decode("Pod", {"spec": spec}).spec, request or {}, count, {"cpu": cpu} if cpu else {}, is_implied
    )
