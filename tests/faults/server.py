"""The API server of a history: the embedded cluster's store with its controllers and hollow nodes, which can be hurt.

Bindings' conflicts, preconditions, watch history and 410 are the store's own. The server can be down, come back without
the history that watches resume from, or come back with the same objects under resourceVersions that start again. It
notes each binding that took effect, and says where one should not have been.
"""

import contextlib
import random
from datetime import UTC, datetime, timedelta

from berth.api.codec import decode
from berth.api.errors import ApiError, ConnectionLost
from berth.api.pod_resources import pod_requests
from berth.api.quantity import milli_value, value
from berth.api.resources import RESOURCES
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.embedded import ClusterSettings, make_controllers
from berth_cluster.hollow.drivers import create_driver_objects
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.namespace_contents import NamespaceContents
from berth_cluster.storage.store import Store, own

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DEVICES = 2
SETTINGS = ClusterSettings(heartbeat_s=0.0, devices_per_node=DEVICES)
POD, NODE, LEASE, EVENT = (RESOURCES[kind] for kind in ("Pod", "Node", "Lease", "Event"))
TOO_LARGE = "Too large resource version: {asked}, current: {current}"


class Server:
    """The API server, and behind it the controllers and kubelets."""

    def __init__(self, sim, rng):
        self.sim = sim
        self.rng = rng
        self.is_up = True
        self.streams = {}
        """The watches that are open, in the order in which they were opened; the values mean nothing."""
        self.bound_by = {}
        """By uid of a pod, (node, identity of the process) of the binding that took effect."""
        self.evicted = {}
        """The names of the pods that schedulers have had deleted, by uid."""
        self.happened_at = {}
        """When each change of an object happened, by its revision."""
        self.lease = ("", 0.0, 0.0)
        """Who holds the lease, when that was written by our clock, and how long it is good for."""
        self._uids = 0
        self._is_pumping = False
        self._suffixes = random.Random(rng.random())
        self.store = self.manager = self.transport = None
        self._open(self._new_store())
        create_driver_objects(self.store, DEVICES)

    def _new_store(self, **options):
        store = Store(clock=self.wall, uid_factory=self._uid, rng=self._suffixes, service_accounts=True, **options)
        NamespaceContents(store)
        return store

    def _open(self, store):
        self.store = store
        self.transport = StoreTransport(store)
        self.manager = ControllerManager(store)
        self.manager.add(make_controllers(self.manager.client, SETTINGS))
        store.subscribe(self._changed)
        self._wake()

    def wall(self):
        """The server's own wall clock, which is always right."""
        return START + timedelta(seconds=self.sim.now)

    def _uid(self):
        self._uids += 1
        return f"uid-{self._uids}"

    # -- controllers ---------------------------------------------------------------------------------------------

    def _changed(self, _type, _resource, obj, _before):
        self.happened_at[int(obj["metadata"]["resourceVersion"])] = self.sim.now
        self._wake()

    def _wake(self):
        if not self._is_pumping:
            self._is_pumping = True
            self.sim.after(self.rng.uniform(0.001, 0.03), self._pump, self.manager)

    def _pump(self, manager):
        """Let the controllers work until they have nothing to do now, and come back at their next deadline."""
        self._is_pumping = False
        if manager is not self.manager:
            return
        now_s = self.wall().timestamp()
        while self._step(now_s):
            pass
        deadline_s = self.manager.next_deadline()
        if deadline_s is not None:
            self._is_pumping = True
            self.sim.after(max(0.01, deadline_s - now_s), self._pump, manager)

    def _step(self, now_s):
        try:
            return self.manager.step(now_s)
        except StoreError as error:  # a controller was overtaken, and looks again with the next change
            self.sim.tell("controllers", "%s", error.message)
            return True

    # -- what people do, past all faults -------------------------------------------------------------------------

    def pods(self):
        return self.store.objects(POD)

    def nodes(self):
        return self.store.objects(NODE)

    def events(self, reason):
        return [event for event in self.store.objects(EVENT) if event["reason"] == reason]

    def find(self, kind, name):
        resource = RESOURCES[kind]
        return self.store.find(resource, "default" if resource.namespaced else "", name)

    def create(self, kind, document):
        resource = RESOURCES[kind]
        with contextlib.suppress(StoreError):  # it is there already
            self.store.create(resource, "default" if resource.namespaced else "", document)

    def delete(self, kind, name, options=None):
        resource = RESOURCES[kind]
        with contextlib.suppress(StoreError):
            self.store.delete(resource, "default" if resource.namespaced else "", name, options)

    def change(self, kind, name, change):
        """Let `change(obj)` edit a copy of an object, and write that."""
        found = self.find(kind, name)
        if found is not None:
            copy = own(found)
            change(copy)
            with contextlib.suppress(StoreError):
                self.store.update(RESOURCES[kind], copy["metadata"].get("namespace", ""), name, copy)

    # -- requests ------------------------------------------------------------------------------------------------

    def serve(self, request):
        """Carry a request out, and return its answer; raises `ApiError` and `ConnectionLost`."""
        if not self.is_up:
            raise ConnectionLost("connection refused", sent=False)
        if request.verb == "bind":
            return self._bind(request)
        if request.verb == "delete" and request.plural == "pods":
            self._check_eviction(request)
        answer = immediately(request.act(self.transport))
        if request.is_write and request.plural == "leases":
            self._note_lease(request)
        return answer

    def _note_lease(self, request):
        spec = self.store.get(LEASE, "kube-system", "kube-scheduler")["spec"]
        self.lease = (spec.get("holderIdentity") or "", self.sim.now, float(spec["leaseDurationSeconds"]))
        if spec.get("holderIdentity") != request.sender:
            self.sim.tell("server", "the lease is given up by %s", request.sender)

    def bind_for(self, process, asked):
        """The binding that an extender makes when it is asked to; what it says of it, empty where that worked."""
        body = {"metadata": {"uid": asked["PodUID"]}, "target": {"kind": "Node", "name": asked["Node"]}}
        try:
            self.store.bind(asked["PodNamespace"], asked["PodName"], body)
        except StoreError as error:
            self._note_refused_binding(process.identity)
            return error.message
        self._note_binding(process, process.identity)
        return ""

    def _bind(self, request):
        try:
            answer = immediately(request.act(self.transport))
        except ApiError:
            self._note_refused_binding(request.sender)
            raise
        self._note_binding(request.process, request.sender)
        return answer

    def _note_binding(self, process, sender):
        record = self.store.bindings[-1]
        if record.pod_uid in self.bound_by:
            self.sim.accuse(f"pod {record.name} ({record.pod_uid}) is bound a second time, to {record.node}")
        self.sim.tell("server", "pod %s (%s) is bound to %s by %s", record.name, record.pod_uid, record.node, sender)
        self.bound_by[record.pod_uid] = (record.node, sender)
        if sender != process.identity:
            return  # what a killed process sent arrives late: nobody is left who could have known better
        why = overload(self, record.pod_uid, record.node, process)
        if why:
            self.sim.accuse(f"pod {record.name} is bound to {record.node} by {sender}, where there is no room: {why}")

    def _note_refused_binding(self, identity):
        """A scheduler that tries to bind its pod elsewhere believes that its binding has failed."""
        record = self.store.bindings[-1]
        node, by = self.bound_by.get(record.pod_uid, ("", ""))
        if by == identity and node != record.node:
            self.sim.accuse(
                f"pod {record.name} is bound to {node} by {identity}, which binds it to {record.node} as well"
            )

    def _check_eviction(self, request):
        """Who is evicted was told so before: the write that says why names the uid, and so must the deletion."""
        pod = self.find("Pod", request.name)
        if pod is not None and not request.names_other_than(pod["metadata"]["uid"]):
            self.evicted[pod["metadata"]["uid"]] = request.name
        conditions = [] if pod is None else (pod.get("status") or {}).get("conditions") or []
        is_told = pod is None or any(one["type"] == "DisruptionTarget" for one in conditions)
        if not is_told and not request.names_other_than(pod["metadata"]["uid"]):
            self.sim.accuse(f"pod {request.name} ({pod['metadata']['uid']}) is deleted without having been chosen")

    def open_watch(self, kind, options):
        """A watch of the store from a version on; raises as an API server does where that cannot be had."""
        if not self.is_up:
            raise ConnectionLost("connection refused", sent=False)
        asked = int(options["resource_version"] or 0)
        if asked > self.store.revision:
            message = TOO_LARGE.format(asked=asked, current=self.store.revision)
            raise ApiError(504, "Timeout", message, 1.0)
        try:
            return self.store.watch(
                kind, options["namespace"], options["label_selector"], options["field_selector"], str(asked)
            )
        except StoreError as error:
            raise ApiError(error.status_code, error.reason, error.message) from None

    # -- harm ----------------------------------------------------------------------------------------------------

    def go_down(self):
        """Break every connection, and refuse new ones."""
        self.is_up = False
        for stream in tuple(self.streams):
            stream.break_off(ConnectionLost("the connection was reset"))

    def come_up(self):
        self.is_up = True

    def forget_history(self):
        """Forget all changes, as an API server does that was restarted: watches resume from the present only."""
        for kind in RESOURCE_TYPES:
            collection = self.store.collection(kind)
            collection._history.clear()
            collection.forgotten = self.store.revision

    def start_again(self):
        """The same objects in a new store whose resourceVersions start again, as after a restore."""
        old = self.store
        new = self._new_store(system_objects=False)
        for kind in RESOURCE_TYPES:
            if new.collection(kind).resource is kind:
                for obj in sorted(old.objects(kind), key=lambda obj: int(obj["metadata"]["resourceVersion"])):
                    new.commit(kind, "ADDED", own(obj), None)
        self._open(new)
        self.forget_history()


def immediately(coroutine):
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError("the store's transport waited for something")


def overload(server, uid, node_name, process):
    """Why a node has too little room for the pod just bound, by what the scheduler could know; empty if it has enough.

    Counted are the pods that the scheduler knows, and those that it bound itself and was not told are gone. Where the
    node is no longer the one that it knows, nobody is to blame.
    """
    node = server.find("Node", node_name)
    known = process.known_node(node_name)
    if node is None or known is None or known.metadata.uid != node["metadata"]["uid"]:
        return ""
    allocatable = {
        name: (milli_value if name == "cpu" else value)(amount)
        for name, amount in node["status"]["allocatable"].items()
    }
    if dict(known.status.allocatable) != node["status"]["allocatable"]:
        return ""
    pods = []
    for document in server.pods():
        meta, phase = document["metadata"], (document.get("status") or {}).get("phase")
        if document["spec"].get("nodeName") != node_name or phase in ("Succeeded", "Failed"):
            continue
        by_itself = server.bound_by.get(meta["uid"], ("", ""))[1] == process.identity and (
            meta["uid"] not in process.told_gone
        )
        if meta["uid"] == uid or by_itself or process.counts(meta["uid"], node_name):
            pods.append(decode("Pod", document))
    if len(pods) > allocatable["pods"]:
        return f"{len(pods)} pods, {allocatable['pods']} allowed"
    for name in ("cpu", "memory"):
        wanted = sum(pod_requests(pod).get(name, 0) for pod in pods)
        if wanted > allocatable[name]:
            return f"{name}: {wanted} requested of {allocatable[name]}"
    ports = [
        port.host_port
        for pod in pods
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    ]
    if len(ports) != len(set(ports)):
        return "a host port is taken twice"
    return ""
