"""Resource slices and device taint rules (API group resource.k8s.io): the times of device taints."""

from berth_cluster.apimachinery.meta import Object, timestamp
from berth_cluster.strategies.base import ClusterView, RequiredFieldsStrategy


class DeviceTaintStrategy(RequiredFieldsStrategy):
    """Slices and rules that put taints on devices: a taint without `timeAdded` gets the present time."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """The time of new taints."""
        for taint in _device_taints(obj):
            if not taint.get("timeAdded"):
                taint["timeAdded"] = timestamp(view.clock())

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
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
