"""The kinds of the core group other than pods: namespaces, nodes, services, secrets, persistent volume claims."""

import base64
import binascii
import ipaddress
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import limit_ranges, names
from berth_cluster.strategies.base import ClusterView, DefaultsStrategy, RESTStrategy
from berth_cluster.strategies.pod_checks import quantity
from berth_cluster.strategies.storage_classes import default_class, says_no_class

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/12")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


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


class NodeStrategy(RESTStrategy):
    """Nodes."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Everything in `capacity` is allocatable, unless the node says less.

        The status is kept on creation, as upstream, where kubelets register with it; hollow nodes say there how large
        they are.
        """
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if status.get("capacity"):
            status.setdefault("allocatable", dict(status["capacity"]))

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Taints and amounts."""
        for number, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
            field = f"spec.taints[{number}]"
            names.check_key(str(taint.get("key", "")), f"{field}.key", errors)
            if taint.get("value"):
                names.check_value(taint["value"], f"{field}.value", errors)
            if taint.get("effect") not in _TAINT_EFFECTS:
                errors.unsupported(f"{field}.effect", str(taint.get("effect", "")), _TAINT_EFFECTS)
        self._check_amounts(obj)

    def validate_update(self, kind: Any, new: Object, old: Object, subresource: str) -> None:
        """Amounts are checked in status updates too: every reader of nodes trusts them."""
        super().validate_update(kind, new, old, subresource)
        self._check_amounts(new)

    def _check_amounts(self, obj: Object) -> None:
        for section in ("capacity", "allocatable"):
            for name, amount in ((obj.get("status") or {}).get(section) or {}).items():
                quantity(amount, f"status.{section}[{name}]", "Node")


class ServiceStrategy(RESTStrategy):
    """Services; each gets an address, though nothing listens there."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Type, ports and address."""
        spec = obj.setdefault("spec", {})
        self._default(spec)
        if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = _free_address(view)
            spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
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
            port.setdefault("targetPort", port.get("port"))

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """A service's name is part of DNS names."""
        names.check_label_name(obj["metadata"]["name"], "metadata.name", errors)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """A service with an address needs ports."""
        spec = obj["spec"]
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
            errors.required("spec.ports")


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


class PersistentVolumeClaimStrategy(DefaultsStrategy):
    """PersistentVolumeClaims: one that leaves its class open gets the default one, if there is any."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__({}, {"volumeMode": "Filesystem"}, {"phase": "Pending"})

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """The defaults, and the class; the volume controller does the same for those that came before it."""
        super().prepare_create(obj, view)
        if says_no_class(obj):
            chosen = default_class(view.objects(BY_KEY["storage.k8s.io", "storageclasses"]))
            if chosen is not None:
                obj["spec"]["storageClassName"] = chosen["metadata"]["name"]
        limit_ranges.check_claim(obj, view)
