"""A scheduler's rules once more, from scratch and as plain as can be, to hold results against.

A cluster is a list of nodes and a list of pods, both JSON as in a manifest; nothing of `berth` is used. It knows what
the random clusters of these tests use: cpu, memory, a device resource, the number of pods, cordons, taints, node
selectors, host ports, required anti-affinity among pods of one app, and topology spread over one key.
"""

from collections import Counter

UNITS = {"m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def number(quantity):
    text = str(quantity)
    for suffix, unit in UNITS.items():
        if text.endswith(suffix):
            return float(text[: -len(suffix)]) * unit
    return float(text)


def requests_of(pod):
    found = Counter()
    for container in pod["spec"]["containers"]:
        for resource, quantity in container.get("resources", {}).get("requests", {}).items():
            found[resource] += round(number(quantity) * 1000)
    return found


def host_ports(pod):
    return {port["hostPort"] for container in pod["spec"]["containers"] for port in container.get("ports", ())}


def tolerates(pod, taint):
    for toleration in pod["spec"].get("tolerations", ()):
        same_key = not toleration.get("key") or toleration["key"] == taint["key"]
        same_effect = not toleration.get("effect") or toleration["effect"] == taint["effect"]
        is_exists = toleration.get("operator") == "Exists"
        if same_key and same_effect and (is_exists or toleration.get("value", "") == taint.get("value", "")):
            return True
    return False


def anti_affinity(pod):
    """The topology key over which pods of the same app keep apart, or None."""
    terms = (
        pod["spec"]
        .get("affinity", {})
        .get("podAntiAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", ())
    )
    return terms[0]["topologyKey"] if terms else None


def label(node, key):
    return node["metadata"]["labels"].get(key)


def app(pod):
    return pod["metadata"]["labels"]["app"]


def allows(pod, node):
    """Whether the node itself lets the pod in, whatever runs there."""
    if node["spec"].get("unschedulable"):
        return False
    if any(
        each["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, each)
        for each in node["spec"].get("taints", ())
    ):
        return False
    return all(label(node, key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())


def fits(pod, node, nodes, running):
    """Whether a pod may go to a node; `running` has pairs of a pod and the name of its node."""
    if not allows(pod, node):
        return False
    name = node["metadata"]["name"]
    here = [other for other, where in running if where == name]
    has = {resource: round(number(amount) * 1000) for resource, amount in node["status"]["allocatable"].items()}
    if (len(here) + 1) * 1000 > has["pods"]:
        return False
    used = Counter()
    for other in here:
        used.update(requests_of(other))
    if any(amount and used[resource] + amount > has.get(resource, 0) for resource, amount in requests_of(pod).items()):
        return False
    if any(host_ports(pod) & host_ports(other) for other in here):
        return False
    by_name = {each["metadata"]["name"]: each for each in nodes}
    for key in {anti_affinity(pod)} - {None}:
        for other, where in running:
            if (
                app(other) == app(pod)
                and where in by_name
                and label(by_name[where], key) == label(node, key) is not None
            ):
                return False
    for other, where in running:  # what runs keeps pods of its app away as well
        key = anti_affinity(other)
        if (
            key
            and app(other) == app(pod)
            and where in by_name
            and label(by_name[where], key) == label(node, key) is not None
        ):
            return False
    return all(spreads(pod, node, nodes, running, each) for each in pod["spec"].get("topologySpreadConstraints", ()))


def spreads(pod, node, nodes, running, constraint):
    """Whether the skew stays within bounds; domains are those of nodes that the pod's node selector matches."""
    key = constraint["topologyKey"]
    if label(node, key) is None:
        return False
    selector = pod["spec"].get("nodeSelector", {})
    eligible = [
        each for each in nodes if label(each, key) is not None and all(label(each, k) == v for k, v in selector.items())
    ]
    counts = {label(each, key): 0 for each in eligible}
    domain_of = {each["metadata"]["name"]: label(each, key) for each in eligible}
    for other, where in running:
        if app(other) == app(pod) and where in domain_of:
            counts[domain_of[where]] += 1
    return counts[label(node, key)] + 1 - min(counts.values()) <= constraint["maxSkew"]


def independent_count(pod, nodes, running):
    """How many copies of a pod fit that look at nothing but their own node: plain arithmetic, node by node."""
    total = 0
    for node in nodes:
        here = [(other, where) for other, where in running if where == node["metadata"]["name"]]
        while fits(pod, node, nodes, here):
            here.append((pod, node["metadata"]["name"]))
            total += 1
    return total
