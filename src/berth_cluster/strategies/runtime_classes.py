"""RuntimeClasses: what is checked of them, and what admission does to pods that name one.

Upstream: plugin/pkg/admission/runtimeclass.
"""

from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import need
from berth_workloads.amounts import amount

RUNTIME_CLASSES = BY_KEY["node.k8s.io", "runtimeclasses"]


# Handlers are part of file names. A class stays what it is, since pods have been admitted by it.
RUNTIME_CLASS = RESTStrategy(check=need("handler", names.check_label_name), fixed=("handler",))


def apply_runtime_class(pod: Object, view: ClusterView) -> None:
    """Give the pod the overhead, the node selector and the tolerations of its RuntimeClass."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    runtime = spec.get("runtimeClassName")
    if not runtime and not spec.get("overhead"):
        return
    found = view.find(RUNTIME_CLASSES, "", runtime) if runtime else {}
    if found is None:
        raise forbidden("pods", "", name, f'pod rejected: RuntimeClass "{runtime}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed") or {}
    given = spec.get("overhead") or {}
    if given and not overhead:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden("pods", "", name, why)
    if given and {key: amount(one).value for key, one in given.items()} != {
        key: amount(one).value for key, one in overhead.items()
    }:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden("pods", "", name, why)
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling, selector = found.get("scheduling") or {}, spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise forbidden("pods", "", name, why)
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**selector, **scheduling["nodeSelector"]}
    tolerations = spec.get("tolerations") or []
    added = [one for one in scheduling.get("tolerations") or [] if one not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
