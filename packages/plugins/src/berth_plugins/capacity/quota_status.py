"""What a controller writes into the status of ElasticQuotas: what the pods of the namespace use that run.

Pure; `controllers.py` plays the controller. Source: pkg/controllers, elasticquota_controller.go. It counts
otherwise than CapacityScheduling does: running pods only, without their overhead, and every resource that a pod or a
bound names.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from berth.controller import Pod, Quantity, milli_value
from berth_plugins.capacity.amounts import CPU, quantity_of

RUNNING = "Running"


def used_of(
    least: Mapping[str, Quantity] | None, most: Mapping[str, Quantity] | None, pods: Iterable[Pod]
) -> dict[str, str]:
    """Return `status.used` of a quota with these bounds (`spec.min`, `spec.max`), given its namespace's pods.

    Resources that a bound names are there even where nothing is used of them.
    """
    total: dict[str, Fraction] = dict.fromkeys((*(least or {}), *(most or {})), Fraction(0))
    for pod in pods:
        if pod.status.phase == RUNNING:
            for name, amount in _asked(pod).items():
                total[name] = total.get(name, Fraction(0)) + amount
    return {name: _written(name, total[name]) for name in sorted(total)}


def _asked(pod: Pod) -> dict[str, Fraction]:
    """Return the sum of a pod's containers, or its largest init container, whichever is more of each resource."""
    found: dict[str, Fraction] = {}
    for container in pod.spec.containers:
        for name, quantity in container.resources.requests.items():
            found[name] = found.get(name, Fraction(0)) + _exact(quantity)
    for container in pod.spec.init_containers:
        for name, quantity in container.resources.requests.items():
            found[name] = max(found.get(name, Fraction(0)), _exact(quantity))
    return found


def _exact(quantity: Quantity) -> Fraction:
    """Return a quantity to the thousandth, which is as fine as objects have it."""
    return Fraction(milli_value(quantity), 1000)


def _written(name: str, amount: Fraction) -> str:
    milli = int(amount * 1000)
    if name == CPU or milli % 1000:
        return quantity_of(CPU, milli)
    return quantity_of(name, milli // 1000)
