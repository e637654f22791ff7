"""Namespaces, nodes, services and secrets, of the core group; leases and runtime classes, of groups of their own."""

import base64
import binascii
import ipaddress
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_json
from berth_cluster.apimachinery.go_form import in_go
from berth_cluster.apimachinery.meta import Object, annotations_of, is_condition_true
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import Check, always, at_least, both, chosen, given, may, need, one_of
from berth_cluster.strategies.pod_checks import EFFECTS, PROTOCOLS, check_amount

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/12")
_HOLLOW = "berth.dev/hollow"  # a node whose kubelet is there from the start, see `hollow.template`
NOT_READY = "node.kubernetes.io/not-ready"
_ADDRESS_MESSAGE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def _complete_namespace(obj: Object, _view: ClusterView) -> None:
    """The label, the finalizer, the phase."""
    obj["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = obj["metadata"]["name"]
    obj["spec"] = {"finalizers": ["kubernetes"]}


def _amend_namespace(new: Object, old: Object, _view: ClusterView) -> None:
    """The label stays, and only the `finalize` subresource changes the finalizers."""
    new["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = new["metadata"]["name"]
    new["spec"] = old.get("spec", {})


# Labelled with their name, and emptied before they go.
NAMESPACE = RESTStrategy(
    status={"phase": "Active"}, name=names.check_label_name, complete=_complete_namespace, amend=_amend_namespace
)


def _is_hollow(node: Object) -> bool:
    return annotations_of(node).get(_HOLLOW) == "true"


class NodeStrategy(RESTStrategy):
    """Nodes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(check=_check_node, times=2)

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Everything in `capacity` is allocatable, unless the node says less; nothing runs there before it is ready.

        The status is kept on creation, as upstream, where kubelets register with it; hollow nodes say there how large
        they are, and that they are ready.
        """
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        if status.get("capacity"):
            status.setdefault("allocatable", dict(status["capacity"]))
        taints = spec.get("taints") or []
        is_there = is_condition_true(obj, "Ready") or _is_hollow(obj)
        if not is_there and all(taint.get("key") != NOT_READY for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

    def prepare_update(self, new: Object, old: Object, subresource: str, _view: ClusterView) -> None:
        """What is added to a hollow node's capacity is allocatable, and what is taken off is not: kubelets see to it.

        A node that says that it is ready is no longer kept free, which upstream leaves to a controller.
        """
        status, before = new.get("status") or {}, old.get("status") or {}
        capacity, known = status.get("capacity") or {}, before.get("capacity") or {}
        if capacity != known and status.get("allocatable") == before.get("allocatable") and _is_hollow(old):
            offered = before.get("allocatable") or {}
            same = {name: offered[name] for name in offered if capacity.get(name) == known.get(name)}
            new["status"] = {**status, "allocatable": capacity | same}
        taints = old["spec"].get("taints") or []
        if subresource != "status" or not taints or not is_condition_true(new, "Ready"):
            return
        kept = [taint for taint in taints if (taint.get("key"), taint.get("effect")) != (NOT_READY, "NoSchedule")]
        spec = {key: value for key, value in old["spec"].items() if key != "taints"}
        new["spec"] = {**spec, "taints": kept} if kept else spec

    def validate_update(
        self, kind: Any, new: Object, old: Object, subresource: str, empties: Object | None = None
    ) -> None:
        """Amounts are checked in status updates too: every reader of nodes trusts them."""
        super().validate_update(kind, new, old, "", empties)


_TAINT = both(always("key", names.check_key), may("value", names.check_value), chosen("effect", *EFFECTS))


def _check_node(node: Object, _field: str, errors: FieldErrors) -> None:
    """Taints and amounts."""
    seen: set[tuple[Any, Any]] = set()
    for number, taint in enumerate((node.get("spec") or {}).get("taints") or []):
        field, pair = f"metadata.taints[{number}]", (taint.get("key"), taint.get("effect", ""))
        _TAINT(taint, field, errors)
        if pair in seen:
            shown = in_go("core.v1.Taint", taint)
            errors.duplicate(field, shown, "taints must be unique by key and effect pair")
        seen.add(pair)
    for section in ("capacity", "allocatable"):
        for name, amount in ((node.get("status") or {}).get(section) or {}).items():
            check_amount(name, amount, f"status.{section}.{name}", errors)


LEASE = RESTStrategy(
    check=may(
        "spec",
        given("leaseDurationSeconds", at_least(1, "must be greater than 0")),
        given("leaseTransitions", at_least(0)),
    )
)


def _give_address(service: Object, view: ClusterView) -> None:
    """Each service gets an address, though nothing listens there."""
    spec = service["spec"]
    if spec["type"] != "ExternalName":
        if not spec.get("clusterIP"):
            spec["clusterIP"] = _free_address(view)
        spec["clusterIPs"] = [spec["clusterIP"]]
    is_open = spec.get("clusterIP") == "None" and not spec.get("selector")  # somebody else says where it leads
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if is_open else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_open else "SingleStack")


def _free_address(view: ClusterView) -> str:
    taken = {(service.get("spec") or {}).get("clusterIP") for service in view.objects(BY_KEY["", "services"])}
    # The first addresses are left to what clusters usually put there (kubernetes, DNS).
    return next(
        text
        for number in range(100, SERVICE_NETWORK.num_addresses)
        if (text := str(SERVICE_NETWORK[number])) not in taken
    )


def _check_address(spec: Object, field: str, errors: FieldErrors) -> None:
    """A service with an address needs ports."""
    address = spec.get("clusterIP")
    if not spec.get("ports") and address != "None" and spec["type"] != "ExternalName":
        errors.required(f"{field}.ports")
    if address and address != "None":
        try:
            ipaddress.ip_address(address)
        except ValueError:
            errors.invalid(f"{field}.clusterIPs[0]", address, _ADDRESS_MESSAGE)


def _check_ports(spec: Object, field: str, errors: FieldErrors) -> None:
    ports = spec.get("ports") or []
    for number, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            errors.required(f"{field}.ports[{number}].name")
        _SERVICE_PORT(port, f"{field}.ports[{number}]", errors)


def _check_target(target: int | str, field: str, errors: FieldErrors) -> None:
    check: Check = names.check_port_name if isinstance(target, str) else names.check_port
    check(target, field, errors)


def _check_twice(ports: list[Object], field: str, errors: FieldErrors) -> None:
    """No two ports with the same number and protocol; what is shown is the second, as Go has it."""
    seen: set[Any] = set()
    for number, port in enumerate(ports):
        pair = (port.get("protocol"), port.get("port"))
        if pair in seen:
            shown = {"Name": "", "Protocol": port.get("protocol", ""), "AppProtocol": None, "Port": port.get("port", 0)}
            errors.duplicate(f"{field}[{number}]", Raw(as_json({**shown, "TargetPort": 0, "NodePort": 0})))
        seen.add(pair)


_SERVICE_PORT = both(
    may("name", names.check_label_name),
    always("port", names.check_port, default=0),
    always("protocol", one_of(*PROTOCOLS)),
    always("targetPort", _check_target),
)
_SERVICE = both(
    _check_address,
    _check_ports,
    may("selector", names.check_labels),
    always("sessionAffinity", one_of("ClientIP", "None")),
    always("type", one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    may("ports", _check_twice),
)
SERVICE = RESTStrategy(
    check=always("spec", _SERVICE),
    status={"loadBalancer": {}},
    kept=("spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"),
    complete=_give_address,
    name=names.check_label_name,
)


def _encode_texts(secret: Object, _view: ClusterView) -> None:
    """`stringData` is written, `data` is kept."""
    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(str(value).encode()).decode()


def _check_data(data: Object, field: str, errors: FieldErrors) -> None:
    for key, value in data.items():
        try:
            base64.b64decode(value or "", validate=True)
        except (binascii.Error, TypeError, ValueError):
            errors.invalid(f"{field}[{key}]", Raw("<secret>"), "must be base64")


SECRET = RESTStrategy(
    check=always("data", _check_data, default={}),
    kept=("type",),
    complete=_encode_texts,
    amend=lambda new, _old, view: _encode_texts(new, view),
)

# Handlers are part of file names. A class stays what it is, since pods have been admitted by it.
RUNTIME_CLASS = RESTStrategy(check=need("handler", names.check_label_name), fixed=("handler",))
