"""Namespaces, nodes, services, volumes, priority classes, budgets: the smaller defaults and checks."""

import base64
import binascii
import ipaddress
import re
from typing import Any

import msgspec

from berth.api.meta import LabelSelector
from berth.api.selectors import SelectorError, compile_selector
from berth_cluster.bootstrap import SYSTEM_CRITICAL
from berth_cluster.errors import FieldErrors, Raw
from berth_cluster.metadata import timestamp
from berth_cluster.resource_types import BY_KEY
from berth_cluster.storage_classes import default_class, says_no_class
from berth_cluster.strategies import names
from berth_cluster.strategies.base import Strategy, View
from berth_cluster.strategies.pod_checks import quantity
from berth_cluster.watch import Object

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/12")
HIGHEST_USER_PRIORITY = 1_000_000_000
PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NamespaceStrategy(Strategy):
    """Namespaces: labelled with their name, and emptied before they go."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: View) -> None:
        """The label, the finalizer, the phase."""
        meta = obj["metadata"]
        meta.setdefault("labels", {})[NAMESPACE_LABEL] = meta["name"]
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, subresource: str, _view: View) -> None:
        """The label stays, and only the `finalize` subresource changes the finalizers."""
        if not subresource:
            new["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = new["metadata"]["name"]
            new["spec"] = old.get("spec", {})

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """A namespace's name is part of DNS names."""
        names.check_label_name(obj["metadata"]["name"], "metadata.name", errors)


class NodeStrategy(Strategy):
    """Nodes."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: View) -> None:
        """What can be allocated is everything there is, unless the node says less."""
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


class ServiceStrategy(Strategy):
    """Services; each gets an address, though nothing listens there."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: View) -> None:
        """Type, ports and address."""
        spec = obj.setdefault("spec", {})
        self._default(spec)
        if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = _free_address(view)
            spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object, subresource: str, _view: View) -> None:
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


def _free_address(view: View) -> str:
    taken = {(service.get("spec") or {}).get("clusterIP") for service in view.objects(BY_KEY["", "services"])}
    # The first addresses are left to what clusters usually put there (kubernetes, DNS).
    return next(
        text
        for number in range(100, SERVICE_NETWORK.num_addresses)
        if (text := str(SERVICE_NETWORK[number])) not in taken
    )


class PriorityClassStrategy(Strategy):
    """Priority classes: their value never changes, and the highest belong to the system."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: View) -> None:
        """The preemption policy."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def prepare_update(self, new: Object, _old: Object, _subresource: str, view: View) -> None:
        """As on creation."""
        self.prepare_create(new, view)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The value."""
        value, name = obj["value"], obj["metadata"]["name"]
        if not isinstance(value, int) or isinstance(value, bool):
            errors.invalid("value", value, "must be a whole number")
        elif name.startswith("system-"):
            if value < SYSTEM_CRITICAL:
                why = "priority class names with 'system-' prefix are reserved for system use only"
                errors.forbidden("metadata.name", why)
        elif value > HIGHEST_USER_PRIORITY:
            why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.forbidden("value", why)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Pods carry the value, so it cannot change behind them."""
        if new["value"] != old["value"]:
            errors.forbidden("value", "may not be changed in an update.")
        if new["preemptionPolicy"] != old.get("preemptionPolicy"):
            errors.invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable")


class DisruptionBudgetStrategy(Strategy):
    """Pod disruption budgets."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: View) -> None:
        """Nothing may be disrupted until a controller has counted."""
        obj.setdefault("spec", {})
        counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
        obj["status"] = dict.fromkeys(counts, 0)

    def prepare_update(self, new: Object, _old: Object, _subresource: str, _view: View) -> None:
        """A budget without a spec is an empty one."""
        new.setdefault("spec", {})

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """One bound, not two, and a selector that can be read."""
        spec = obj["spec"]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = Raw(msgspec.json.encode(spec).decode())
            errors.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
        if spec.get("selector") is not None:
            try:
                compile_selector(msgspec.convert(spec["selector"], LabelSelector))
            except (SelectorError, msgspec.ValidationError) as error:
                errors.invalid("spec.selector", Raw(msgspec.json.encode(spec["selector"]).decode()), str(error))
        for name in ("minAvailable", "maxUnavailable"):
            bound = spec.get(name)
            if isinstance(bound, str) and not re.fullmatch(r"[0-9]+%", bound):
                errors.invalid(f"spec.{name}", bound, PERCENT_MESSAGE)
            elif isinstance(bound, int) and bound < 0:
                errors.invalid(f"spec.{name}", bound, "must be greater than or equal to 0")


class SecretStrategy(Strategy):
    """Secrets: `stringData` is written, `data` is kept."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: View) -> None:
        """Type and data."""
        obj.setdefault("type", "Opaque")
        self._take_string_data(obj)

    def prepare_update(self, new: Object, old: Object, _subresource: str, _view: View) -> None:
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


class DefaultsStrategy(Strategy):
    """Kinds of which some fields have a default and nothing else is special."""

    __slots__ = ("_defaults", "_spec_defaults", "_status")

    def __init__(self, defaults: Object, spec_defaults: Object, status: Object | None) -> None:
        self._defaults = defaults
        self._spec_defaults = spec_defaults
        self._status = status

    def prepare_create(self, obj: Object, _view: View) -> None:
        """The defaults, and the first status."""
        for key, value in self._defaults.items():
            obj.setdefault(key, value)
        if self._spec_defaults:
            spec = obj.setdefault("spec", {})
            for key, value in self._spec_defaults.items():
                spec.setdefault(key, value)
        if self._status is not None:
            obj["status"] = dict(self._status)

    def prepare_update(self, new: Object, _old: Object, subresource: str, view: View) -> None:
        """Defaults again."""
        if subresource != "status":
            status = new.get("status")
            self.prepare_create(new, view)
            if status is not None:
                new["status"] = status


class ClaimStrategy(DefaultsStrategy):
    """PersistentVolumeClaims: one that leaves its class open gets the default one, if there is any."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__({}, {"volumeMode": "Filesystem"}, {"phase": "Pending"})

    def prepare_create(self, obj: Object, view: View) -> None:
        """The defaults, and the class; the volume controller does the same for those that came before it."""
        super().prepare_create(obj, view)
        if says_no_class(obj):
            chosen = default_class(view.objects(BY_KEY["storage.k8s.io", "storageclasses"]))
            if chosen is not None:
                obj["spec"]["storageClassName"] = chosen["metadata"]["name"]


class RequiredFieldsStrategy(Strategy):
    """Kinds of which some fields must be there, and nothing else is checked."""

    __slots__ = ("_required",)

    def __init__(self, *required: str) -> None:
        self._required = required

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The fields, given as dotted paths."""
        for path in self._required:
            found: Any = obj
            for name in path.split("."):
                found = found.get(name) if isinstance(found, dict) else None
            if found in (None, ""):
                errors.required(path)


class DeviceTaintStrategy(RequiredFieldsStrategy):
    """Slices and rules that put taints on devices: a taint that does not say since when it is there has come now."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: View) -> None:
        """The time of new taints."""
        for taint in _device_taints(obj):
            if not taint.get("timeAdded"):
                taint["timeAdded"] = timestamp(view.clock())

    def prepare_update(self, new: Object, old: Object, subresource: str, view: View) -> None:
        """Taints that were there already keep their time."""
        if subresource:
            return
        known = {_without_time(taint): taint.get("timeAdded") for taint in _device_taints(old)}
        for taint in _device_taints(new):
            if not taint.get("timeAdded") and known.get(_without_time(taint)):
                taint["timeAdded"] = known[_without_time(taint)]
        self.prepare_create(new, view)


def _device_taints(obj: Object) -> list[Object]:
    spec = obj.get("spec") or {}
    found = [spec.get("taint"), *(taint for one in spec.get("devices") or [] for taint in one.get("taints") or [])]
    return [taint for taint in found if isinstance(taint, dict)]


def _without_time(taint: Object) -> tuple[str, str, str]:
    return taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
