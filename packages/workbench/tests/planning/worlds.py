"""Small random clusters, as manifests, with pods already running where the checker allows them."""

from packages.workbench.tests.planning import checker

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def random_node(rng, number):
    labels = {HOSTNAME: f"n{number}", "disk": rng.choice(["ssd", "hdd"])}
    if rng.random() < 0.9:
        labels[ZONE] = rng.choice("abc")
    allocatable = {
        "cpu": f"{rng.randrange(1, 9) * 500}m",
        "memory": f"{rng.randrange(1, 9)}Gi",
        "pods": str(rng.choice([2, 5, 20])),
    }
    if rng.random() < 0.3:
        allocatable["example.com/gpu"] = str(rng.randrange(1, 5))
    spec = {}
    if rng.random() < 0.1:
        spec["unschedulable"] = True
    if rng.random() < 0.2:
        spec["taints"] = [
            {"key": "team", "value": rng.choice("xy"), "effect": rng.choice(["NoSchedule", "PreferNoSchedule"])}
        ]
    return {
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def random_pod(rng, name, app):
    requests = {"cpu": f"{rng.randrange(0, 9) * 250}m", "memory": f"{rng.randrange(0, 5) * 256}Mi"}
    if rng.random() < 0.2:
        requests["example.com/gpu"] = "1"
    container = {"name": "c", "resources": {"requests": requests}}
    spec = {"containers": [container]}
    if rng.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([80, 81])}]
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd"])}
    if rng.random() < 0.4:
        spec["tolerations"] = [{"key": "team", "value": rng.choice("xy"), "effect": "NoSchedule"}]
    kind = rng.random()
    selector = {"matchLabels": {"app": app}}
    if kind < 0.2:
        term = {"labelSelector": selector, "topologyKey": rng.choice([ZONE, HOSTNAME])}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif kind < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.randrange(1, 3),
                "topologyKey": rng.choice([ZONE, HOSTNAME]),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    return {"kind": "Pod", "metadata": {"name": name, "labels": {"app": app}}, "spec": spec}


def is_independent(pod):
    """Whether copies of a pod look at nothing but their own node."""
    return not checker.anti_affinity(pod) and not pod["spec"].get("topologySpreadConstraints")


def random_world(rng, owned=False):
    """Nodes, and pods with the names of their nodes."""
    nodes = [random_node(rng, number) for number in range(rng.randrange(1, 9))]
    running = []
    for number in range(rng.randrange(0, 15)):
        app = rng.choice(["web", "db", "asked"])
        pod = random_pod(rng, f"{app}-{number}", app)
        if owned and rng.random() < 0.8:
            pod["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
            ]
        places = [node for node in nodes if checker.fits(pod, node, nodes, running)]
        if places:
            name = rng.choice(places)["metadata"]["name"]
            running.append((pod, name))
    return nodes, running


def bound(pod, node_name):
    """The manifest of a pod that runs."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node_name}}
