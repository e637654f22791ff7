"""Every kind of text that comes from outside, each with what reads it and the errors by which it may be refused."""

from collections.abc import Callable
from io import BytesIO
from random import Random
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.dra import Device
from berth.api.errors import api_error_from_body
from berth.api.quantity import QuantityError, milli_value, nano_value, value
from berth.api.resources import RESOURCES
from berth.api.selectors import SelectorError, parse_label_selector
from berth.cel.semver import SemverError, parse_semver
from berth.config.document import parse_document
from berth.config.errors import ConfigError
from berth.config.load import load_config
from berth.core.builders import expression, make_node, make_pod, make_pod_group
from berth.extender import wire
from berth.kube.lease import LeaseError, read_lease
from berth.kube.mirror import Mirror
from berth.kube.wire import MalformedError, WireReader
from berth.plugins.dra.cel import CelError, DeviceView, Selectors
from berth_workbench.snapshot.anonymizer import anonymized
from berth_workbench.snapshot.documents import SnapshotError, parse_documents
from berth_workbench.snapshot.snapshot import Snapshot, read_cluster
from berth_workbench.snapshot.writer import write_lines
from packages.scheduler.tests.plugins.dra import support as dra
from tests.liveness import objects as made


class Input(NamedTuple):
    """One way in."""

    name: str
    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...]
    samples: tuple[bytes, ...]


def _samples() -> dict[str, tuple[bytes, ...]]:
    """Return good documents by kind."""
    rng = Random(1)
    pod = (
        make_pod("p").label("app", "web").request({"example.com/gpu": "1"}, cpu="500m", memory="1Gi").host_port(80)
        .init_container("busybox:1", requests={"cpu": "1"}).overhead(cpu="10m").priority(5).gate("wait")
        .tolerate("a", "b", effect="NoSchedule").node_selector({"disk": "ssd"}).owned_by("ReplicaSet", "rs")
        .require_node(expression("zone", "In", "a", "b"), fields=[expression("metadata.name", "In", "n1")])
        .prefer_node(5, expression("cores", "Gt", "3")).pod_affinity("zone", {"app": "web"})
        .pod_anti_affinity("host", {"app": "db"}, namespaceSelector={}).prefer_pod_affinity(3, "zone", {"a": "b"})
        .spread("zone", labels={"app": "web"}, minDomains=2).claim("data").resource_claim("gpu")
        .volume("v", emptyDir={})
    )  # fmt: skip
    node = (
        make_node("n1")
        .capacity(cpu="4", memory="8Gi", pods="110")
        .zone("a", "r")
        .taint("a", "b")
        .image("app:1", size_bytes=5)
    )
    made_objects: list[Any] = [
        pod.build(), node.build(), make_pod_group("g", 2), made.random_claim(rng, "c0"), made.random_volume(rng, "v0"),
        made.random_class(rng, "wait"), made.random_csi_node(rng, "n1"), made.random_driver(rng),
        made.random_capacity(rng, "a"), made.random_attachment(rng, "a0"), made.random_slice(rng, "n1"),
        made.random_part_of_a_pool(rng), made.random_device_class(rng, "gpu"), made.random_device_claim(rng, "d0"),
        made.random_budget(rng, "b0"),
    ]  # fmt: skip
    found: dict[str, tuple[bytes, ...]] = {}
    for obj in made_objects:
        kind = type(obj).__name__
        found[kind] = (*found.get(kind, ()), msgspec.json.encode(obj))
    found["Pod"] = (*found["Pod"], msgspec.json.encode(pod.document))
    found["Node"] = (*found["Node"], msgspec.json.encode(node.document))
    return found


SAMPLES = _samples()
_METADATA = {"name": "x", "namespace": "default", "uid": "u", "labels": {"a": "b"}, "resourceVersion": "5"}


def _kind_reader(kind: str) -> Callable[[bytes], Any]:
    return lambda text: decode(kind, text)


def _watched(text: bytes) -> None:
    """Read a line as a reflector does: the event, its object's identity, then the object itself."""
    reader = WireReader()
    mirror = Mirror(RESOURCES["Pod"], reader)
    event = reader.event(text)
    reader.identity(event.object)
    mirror.upsert(event.object)
    api_error_from_body(410, bytes(event.object))


def _listed(text: bytes) -> None:
    reader = WireReader()
    mirror = Mirror(RESOURCES["Pod"], reader)
    for raw in reader.list(text).items or ():
        mirror.upsert(raw)


def _given(text: bytes) -> None:
    """Read what somebody gives as a cluster, down to the structs."""
    documents = [each for each in parse_documents(text, "a file") if each.is_read_by_scheduler]
    list(Snapshot(documents).structs())


def _file(text: bytes) -> None:
    """Read a snapshot with this header."""
    with NamedTemporaryFile() as file:
        file.write(text + b"\n" + SAMPLES["Pod"][-1].replace(b"{", b'{"kind":"Pod",', 1))
        file.flush()
        list(read_cluster([file.name]).structs())


def _renamed(text: bytes) -> None:
    """Anonymize objects, and write them."""
    made, _ = anonymized(Snapshot(list(parse_documents(text, "a file"))))
    write_lines(made, BytesIO())


def _quantity(text: bytes) -> None:
    number = text.decode("utf-8", "replace")
    for reading in (milli_value, value, nano_value):
        reading(number)


_DEVICE = DeviceView("gpu.example.com", msgspec.convert(dra.device("g0", {"model": "x"}, {"mem": "8Gi"}), Device))


def _cel(text: bytes) -> None:
    _DEVICE.verdict(Selectors().get(text.decode("utf-8", "replace")))


def _text(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


def _documents() -> tuple[bytes, ...]:
    profile = {
        "schedulerName": "s",
        "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 3}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                "type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 1}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]}}}},
            {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}},
            {"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}}},
        ],
    }  # fmt: skip
    extender = {
        "urlPrefix": "https://127.0.0.1:9/x", "filterVerb": "filter", "weight": 2, "httpTimeout": "5s",
        "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}], "tlsConfig": {"insecure": False},
    }  # fmt: skip
    today = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile],
        "extenders": [extender], "percentageOfNodesToScore": 50,
        "leaderElection": {"leaderElect": True, "leaseDuration": "15s"}, "parallelism": 16,
        "clientConnection": {"qps": 50.5, "burst": 100}, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10,
    }  # fmt: skip
    old = {**today, "apiVersion": "kubescheduler.config.k8s.io/v1beta1"}
    policy = {
        "apiVersion": "v1", "kind": "Policy", "hardPodAffinitySymmetricWeight": 3, "alwaysCheckAllPredicates": True,
        "predicates": [{"name": "PodFitsResources"}, {"name": "L", "argument": {
            "labelsPresence": {"labels": ["a"], "presence": True}}}],
        "priorities": [{"name": "S", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "zone"}}}],
        "extenders": [{"urlPrefix": "http://127.0.0.1:9", "filterVerb": "f", "weight": 1}],
    }  # fmt: skip
    return tuple(msgspec.json.encode(document) for document in (today, old, policy))


def _answer(kind: Any) -> Callable[[bytes], Any]:
    return lambda text: wire.read(text, kind)


_ANYTHING = msgspec.json.encode({"metadata": _METADATA})
_VICTIMS = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}
_EVENT = {
    "type": "MODIFIED",
    "object": {"metadata": _METADATA, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}},
}

INPUTS = (
    *(
        Input(kind, _kind_reader(kind), (ObjectError,), SAMPLES.get(kind, (_ANYTHING,)))
        for kind in KINDS
    ),
    Input("watch line", _watched, (MalformedError,), (msgspec.json.encode(_EVENT),)),
    Input("list", _listed, (MalformedError,), (
        msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": [_EVENT["object"]] * 3}),)),
    Input("Status", lambda text: str(api_error_from_body(500, text)), (), (
        msgspec.json.encode({"kind": "Status", "message": "no", "reason": "Conflict", "details": {"causes": [{}]}}),)),
    Input("Lease", read_lease, (LeaseError,), (msgspec.json.encode({"metadata": _METADATA, "spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z"}}),)),
    Input("configuration", lambda text: load_config(parse_document(text, "a file")), (ConfigError,), _documents()),
    Input("objects", _given, (SnapshotError,), (
        msgspec.json.encode({"kind": "List", "items": [msgspec.json.decode(SAMPLES[kind][-1]) | {"kind": kind}
                                                       for kind in ("Node", "Pod", "ResourceClaim")]}),
        msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": [
            msgspec.json.decode(SAMPLES["Pod"][0])]}))),
    *(Input(f"anonymized {kind}", _renamed, (SnapshotError,), tuple(
        b'{"kind":"%s",%s' % (kind.encode(), sample.removeprefix(b"{")) for sample in samples))
      for kind, samples in SAMPLES.items()),
    Input("YAML", _given, (SnapshotError,), _text(
        "kind", "kind: Pod\nmetadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}\n---\nkind: List\nitems: []\n",
        "kind: Pod\nspec: {x: &a [1.5, 0x1f], y: [*a, yes]}\n")),
    Input("snapshot", _file, (SnapshotError,), (
        b'{"kind":"BerthSnapshot","format":1,"counts":{"Pod":1},"missing":[{"kind":"Pod","reason":"no"}]}',)),
    Input("quantity", _quantity, (QuantityError,), _text('"100m"', "1.5Gi", "-3", "1e3", "+0.1", "12E", "1e-9")),
    Input("label selector", lambda text: parse_label_selector(text.decode("utf-8", "replace")), (SelectorError,), _text(
        '"a=b"', "a in (b, c),!d", "e notin (f)", "x>5,y<6", "k==v,k!=w", "a")),
    Input("version", lambda text: parse_semver(text.decode("utf-8", "replace")), (SemverError,), _text(
        '"1.2.3"', "1.0.0-rc.1+build", "0.0.0")),
    Input("CEL", _cel, (CelError,), _text(
        '"x"', "device.driver == 'a'", "device.attributes['gpu.example.com'].model == 'x'",
        "device.capacity['gpu.example.com'].mem.isGreaterThan(quantity('1Gi'))", "[1,2,3].all(x, x > 0)",
        "device.attributes.exists(k, k.startsWith('gpu'))")),
    Input("extender's filter", _answer(wire.ExtenderFilterResult), (wire.WireError,), (msgspec.json.encode(
        {"Nodes": {"Items": [{"metadata": {"name": "n"}}]}, "NodeNames": ["n"], "FailedNodes": {"m": "no"}}),)),
    Input("extender's priorities", _answer(list[wire.HostPriority]), (wire.WireError,), (
        msgspec.json.encode([{"Host": "n", "Score": 5}]),)),
    Input("extender's victims", _answer(wire.ExtenderPreemptionResult), (wire.WireError,), (
        msgspec.json.encode({"NodeNameToMetaVictims": _VICTIMS}),)),
    Input("extender's binding", _answer(wire.ExtenderBindingResult), (wire.WireError,), (
        msgspec.json.encode({"Error": ""}),)),
)  # fmt: skip
"""All ways in, but for kubeconfigs and what the embedded server reads, which have tests beside them."""
