"""The kinds of the core group other than pods and volumes: namespaces, nodes, services, secrets."""

import base64
import binascii
import ipaddress
from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import FieldErrors, Raw
from berth_cluster.apimachinery.meta import Object, annotations_of, is_condition_true
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.apimachinery.schema import in_go, message
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.pod_checks import EFFECTS, PROTOCOLS, check_amount

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/12")
_HOLLOW = "berth.dev/hollow"  # a node whose kubelet is there from the start, see `hollow.template`
NOT_READY = "node.kubernetes.io/not-ready"
_ADDRESS_MESSAGE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_AFFINITIES = ("ClientIP", "None")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


class NamespaceStrategy(RESTStrategy):
    """Namespaces: labelled with their name, and emptied before they go."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """The label, the finalizer, the phase."""
        meta = obj["metadata"]
        meta.setdefault("labels", {})[NAMESPACE_LABEL] = meta["name"]
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, subresource: str, _view: ClusterView) -> None:
        """The label stays, and only the `finalize` subresource changes the finalizers."""
        if not subresource:
            new["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = new["metadata"]["name"]
            new["spec"] = old.get("spec", {})

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """A namespace's name is part of DNS names."""
        names.check_label_name(obj["metadata"]["name"], "metadata.name", errors)


def _is_hollow(node: Object) -> bool:
    return annotations_of(node).get(_HOLLOW) == "true"


class NodeStrategy(RESTStrategy):
    """Nodes."""

    __slots__ = ()
    checks = 2

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Everything in `capacity` is allocatable, unless the node says less; nothing runs there before it is ready.

        The status is kept on creation, as upstream, where kubelets register with it; hollow nodes say there how large
        they are, and that they are ready.
        """
        spec = obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
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

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Taints and amounts."""
        seen: set[tuple[Any, Any]] = set()
        for number, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
            field, effect = f"metadata.taints[{number}]", taint.get("effect", "")
            names.check_key(taint.get("key", ""), f"{field}.key", errors)
            if taint.get("value"):
                names.check_value(taint["value"], f"{field}.value", errors)
            if not effect:
                errors.required(f"{field}.effect")
            elif effect not in EFFECTS:
                errors.unsupported(f"{field}.effect", effect, EFFECTS)
            if (taint.get("key"), effect) in seen:
                shown = Raw(in_go(message("core.v1.Taint"), taint))
                errors.duplicate(field, shown, "taints must be unique by key and effect pair")
            seen.add((taint.get("key"), effect))
        for section in ("capacity", "allocatable"):
            for name, amount in ((obj.get("status") or {}).get(section) or {}).items():
                check_amount(name, amount, f"status.{section}.{name}", errors)

    def validate_update(self, kind: Any, new: Object, old: Object, subresource: str) -> None:
        """Amounts are checked in status updates too: every reader of nodes trusts them."""
        super().validate_update(kind, new, old, "")


class ServiceStrategy(RESTStrategy):
    """Services; each gets an address, though nothing listens there."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Type, ports and address."""
        spec = obj.setdefault("spec", {})
        self._default(spec)
        if spec["type"] != "ExternalName":
            if not spec.get("clusterIP"):
                spec["clusterIP"] = _free_address(view)
            spec["clusterIPs"] = [spec["clusterIP"]]
        is_open = spec.get("clusterIP") == "None" and not spec.get("selector")  # somebody else says where it leads
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if is_open else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_open else "SingleStack")
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object, subresource: str, _view: ClusterView) -> None:
        """The address stays."""
        if subresource:
            return
        spec = new.setdefault("spec", {})
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in (old.get("spec") or {}):
                spec.setdefault(name, old["spec"][name])
        self._default(spec)

    def _default(self, spec: Object) -> None:
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """A service's name is part of DNS names."""
        names.check_label_name(obj["metadata"]["name"], "metadata.name", errors)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """A service with an address needs ports."""
        spec = obj["spec"]
        ports = spec.get("ports") or []
        if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
            errors.required("spec.ports")
        address = spec.get("clusterIP")
        if address and address != "None" and not _is_address(address):
            errors.invalid("spec.clusterIPs[0]", address, _ADDRESS_MESSAGE)
        for number, port in enumerate(ports):
            _check_service_port(port, f"spec.ports[{number}]", errors, needs_name=len(ports) > 1)
        names.check_labels(spec.get("selector"), "spec.selector", errors)
        for name, allowed in (("sessionAffinity", _AFFINITIES), ("type", _SERVICE_TYPES)):
            if spec[name] not in allowed:
                errors.unsupported(f"spec.{name}", spec[name], allowed)
        seen: set[Any] = set()
        for number, port in enumerate(ports):
            pair = (port.get("protocol"), port.get("port"))
            if pair in seen:
                shown = {key: value for key, value in port.items() if key in ("port", "protocol")}
                errors.duplicate(f"spec.ports[{number}]", Raw(_go_port(shown)))
            seen.add(pair)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _go_port(port: Object) -> str:
    """A port as Go's formatter shows its internal type in messages."""
    shown = {"Name": "", "Protocol": port.get("protocol", ""), "AppProtocol": None, "Port": port.get("port", 0),
             "TargetPort": 0, "NodePort": 0}  # fmt: skip
    return msgspec.json.encode(shown).decode()


def _check_service_port(port: Object, field: str, errors: FieldErrors, *, needs_name: bool) -> None:
    if port.get("name"):
        names.check_label_name(port["name"], f"{field}.name", errors)
    elif needs_name:
        errors.required(f"{field}.name")
    names.check_port(port.get("port", 0), f"{field}.port", errors)
    if port.get("protocol") not in PROTOCOLS:
        errors.unsupported(f"{field}.protocol", port.get("protocol", ""), PROTOCOLS)
    target = port["targetPort"]
    (names.check_port_name if isinstance(target, str) else names.check_port)(target, f"{field}.targetPort", errors)


def _free_address(view: ClusterView) -> str:
    taken = {(service.get("spec") or {}).get("clusterIP") for service in view.objects(BY_KEY["", "services"])}
    # The first addresses are left to what clusters usually put there (kubernetes, DNS).
    return next(
        text
        for number in range(100, SERVICE_NETWORK.num_addresses)
        if (text := str(SERVICE_NETWORK[number])) not in taken
    )


class SecretStrategy(RESTStrategy):
    """Secrets: `stringData` is written, `data` is kept."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Type and data."""
        obj.setdefault("type", "Opaque")
        self._take_string_data(obj)

    def prepare_update(self, new: Object, old: Object, _subresource: str, _view: ClusterView) -> None:
        """As on creation."""
        new.setdefault("type", old.get("type", "Opaque"))
        self._take_string_data(new)

    def _take_string_data(self, obj: Object) -> None:
        plain = obj.pop("stringData", None) or {}
        for key, value in plain.items():
            obj.setdefault("data", {})[key] = base64.b64encode(str(value).encode()).decode()

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The data is base64."""
        for key, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value or "", validate=True)
            except (binascii.Error, TypeError, ValueError):
                errors.invalid(f"data[{key}]", Raw("<secret>"), "must be base64")
