"""What `kubectl logs` shows of a pod of which no container has run: one line that says so. Called by `handlers`."""

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_SECTIONS = ("containers", "initContainers", "ephemeralContainers")


def hollow_log(pod: Object, container: str) -> str:
    """The log of one container, by default the only one. Refuses with a kubelet's words what no kubelet could show."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    images = {each["name"]: each.get("image", "") for section in _SECTIONS for each in spec.get(section) or []}
    if not container and len(spec["containers"]) > 1:
        names = " ".join(each["name"] for each in spec["containers"])
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{names}]")
    container = container or spec["containers"][0]["name"]
    if container not in images:
        raise bad_request(f"container {container} is not valid for pod {name}")
    if not spec.get("nodeName"):
        return ""
    status = pod.get("status") or {}
    states = [each for field in _STATUSES for each in status.get(field) or []]
    state = next((each.get("state") or {} for each in states if each["name"] == container), {})
    reason = (state.get("waiting") or {}).get("reason", "")
    if reason in ("ContainerCreating", "PodInitializing"):
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return f"hollow node {spec['nodeName']}: no container has run; {container} would have been {images[container]}\n"
