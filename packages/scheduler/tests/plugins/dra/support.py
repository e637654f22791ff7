"""Slices, classes, claims and a small cluster for the tests of DynamicResources."""

from berth.api.codec import decode
from berth.config.feature_gates import feature_gates
from berth.core.builders import make_node
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Answer
from berth.framework.handle import ClusterState, Handle
from berth.plugins.dra.plugin import DynamicResources, DynamicResourcesArgs
from berth.state.cache import Cache
from berth.state.objects import ObjectStore
from berth.state.pod_info import PodInfo

DRIVER = "gpu.example.com"


def device(name, attributes=None, capacity=None, **fields):
    """A device; attributes as Python values, versions as `("version", text)`."""
    kinds = {int: "int", str: "string", bool: "bool"}
    typed = {
        key: {value[0]: value[1]} if isinstance(value, tuple) else {kinds[type(value)]: value}
        for key, value in (attributes or {}).items()
    }
    amounts = {key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()}
    return {"name": name, "attributes": typed, "capacity": amounts, **fields}


def resource_slice(name, *devices, node="a", driver=DRIVER, pool="", generation=1, count=1, **spec):
    """A slice of `node`'s pool, or of another; `node=None` where `spec` says which nodes."""
    where = {"nodeName": node} if node else {}
    in_pool = {"name": pool or node, "generation": generation, "resourceSliceCount": count}
    document = {"driver": driver, "pool": in_pool, "devices": list(devices), **where, **spec}
    return decode("ResourceSlice", {"metadata": {"name": name}, "spec": document})


def device_class(name="gpu", *expressions, **spec):
    """A class of devices."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return decode("DeviceClass", {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}})


def request(name="r0", class_name="gpu", *expressions, **fields):
    """A request for exactly one device, or for what `fields` say."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {"name": name, "exactly": {"deviceClassName": class_name, "selectors": selectors, **fields}}


def alternatives(name, *requests):
    """A request with alternatives."""
    return {"name": name, "firstAvailable": [{"name": r["name"], **r["exactly"]} for r in requests]}


def claim(name="c", *requests, constraints=(), status=None, uid="", owner="", **metadata):
    """A claim; with `owner` (a pod's uid) one made from a template."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}] if owner else []
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "ownerReferences": owners, **metadata}
    devices = {"requests": list(requests or [request()]), "constraints": list(constraints)}
    return decode("ResourceClaim", {"metadata": meta, "spec": {"devices": devices}, "status": status or {}})


def allocation(*devices, request_name="r0", node="", **fields):
    """status.allocation with these devices of the node's pool (or as `(pool, device)`)."""
    results = [
        {"request": request_name, "driver": DRIVER, "pool": d[0] if isinstance(d, tuple) else node or "a",
         "device": d[1] if isinstance(d, tuple) else d, **fields}
        for d in devices
    ]  # fmt: skip
    found = {"devices": {"results": results}}
    if node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        found["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return found


class World:
    """Nodes, objects, and one plugin over them."""

    def __init__(self, *objects, nodes=("a",), gates=None, args=None, wall=0.0):
        self.objects = ObjectStore()
        self.put(*objects)
        cache = Cache(capacity=4)
        for node in nodes:
            cache.put_node(make_node(node).capacity(cpu="8", pods=110).build() if isinstance(node, str) else node)
        self.now = 0.0
        state = ClusterState.of(cache, self.objects)
        self.handle = Handle(state, feature_gates(gates or {}), lambda: self.now)
        self.plugin = DynamicResources(args or DynamicResourcesArgs(), self.handle, wall_clock=lambda: wall)
        self.state = CycleState()

    def put(self, *objects):
        for obj in objects:
            self.objects.put(type(obj).__name__, obj)

    def look(self, pod):
        """PreFilter, then Filter on all nodes: PreFilter's status where it is one, else each node's message."""
        self.state = CycleState()
        status = self.plugin.pre_filter(self.state, pod)
        if status is not None:
            return status
        table = self.handle.cache.table
        return {
            table.names[row]: None if (said := self.plugin.filter(self.state, pod, table.view(row))) is None else said
            for row in table.rows().tolist()
        }

    def messages(self, pod):
        """The same with each node's message."""
        return {name: None if status is None else status.message for name, status in self.look(pod).items()}

    def take(self, pod, node="a"):
        """Look, and reserve on a node; return the devices taken, by request."""
        assert self.look(pod)[node] is None, "the pod does not fit"
        assert self.plugin.reserve(self.state, pod, node) is None
        taken = self.state.read("DynamicResources").allocations
        return [
            (result.request, result.pool, result.device)
            for index in sorted(taken)
            for result in taken[index].devices.results
        ]


def pod_with(*claims, name="p", **fields):
    """A pod that uses these claims by name; `(name, template)` where one is made for it."""
    uses = [
        {"name": c[0], "resourceClaimTemplateName": c[1]}
        if isinstance(c, tuple)
        else {"name": c, "resourceClaimName": c}
        for c in claims
    ]
    statuses = [{"name": key, "resourceClaimName": made} for key, made in fields.pop("made", {}).items()]
    containers = fields.pop("containers", [{"name": "c0"}])
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": containers, "resourceClaims": uses, **fields},
        "status": {"resourceClaimStatuses": statuses},
    }
    return PodInfo.of(decode("Pod", document))


def answered(steps, *answers):
    """Run a generator, giving it these answers in turn; return what it yielded and what it returned."""
    yielded, given = [], iter(answers)
    answer = None
    try:
        while True:
            yielded.append(steps.send(answer))
            answer = next(given)
            if callable(answer):
                answer = answer(yielded[-1])
            if isinstance(answer, str):
                answer = Answer(0, error=answer)
            elif isinstance(answer, dict):
                answer = Answer(0, result=answer)
    except StopIteration as done:
        return yielded, done.value
