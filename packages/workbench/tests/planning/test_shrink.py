"""What shrinking frees and which pending pods then fit, against arithmetic on small random clusters."""

import json
import random
import shlex

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.shrink import shrinking
from berth_workbench.planning.usage import UsageError, Used, read_usage
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site

MEBI = 1 << 20


def a_pod(name, owner, cpu_milli, mebi, node=""):
    made = make_pod(name).request(cpu=f"{cpu_milli}m", memory=f"{mebi}Mi")
    made = made.owned_by("StatefulSet", owner) if owner else made
    return made.node(node) if node else made


def shrunk_to(used, requested, percent):
    """In thousandths, as people would work it out."""
    wanted = max(-(-used * (100 + percent) // 100), 1)
    return min(wanted, requested)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_freed_and_what_fits_then_is_what_arithmetic_says(seed):
    rng = random.Random(seed)
    percent = rng.choice([0, 10, 20, 50])
    nodes = {f"n{i}": [rng.choice([2000, 4000]), rng.choice([2048, 8192])] for i in range(rng.randint(1, 4))}
    room = {name: list(size) for name, size in nodes.items()}
    objects = [make_node(name).capacity(cpu=f"{c}m", memory=f"{m}Mi", pods="99") for name, (c, m) in nodes.items()]
    usage, freed = {}, [0, 0]
    freed_on = {name: [0, 0] for name in nodes}
    for owner in ("a", "b", "c"):
        request = [rng.choice([300, 700, 1500]), rng.choice([100, 700])]
        pods, most = [], [0, 0]
        for number in range(rng.randint(1, 4)):
            node = rng.choice(sorted(nodes))
            if all(have >= want for have, want in zip(room[node], request, strict=True)):
                room[node] = [have - want for have, want in zip(room[node], request, strict=True)]
                pods.append(node)
                objects.append(a_pod(f"{owner}-{number}", owner, *request, node))
                if rng.random() < 0.8:
                    used = [rng.randint(0, 1600), rng.randint(0, 800)]
                    usage[f"default/{owner}-{number}"] = {"c": Used(used[0], used[1] * MEBI)}
                    most = [max(pair) for pair in zip(most, used, strict=True)]
        if any(f"default/{owner}-{number}" in usage for number in range(4)):
            less = [want - shrunk_to(use, want, percent) for use, want in zip(most, request, strict=True)]
            for node in pods:
                freed_on[node] = [have + more for have, more in zip(freed_on[node], less, strict=True)]
                freed = [have + more for have, more in zip(freed, less, strict=True)]
    asked = [rng.choice([400, 900]), rng.choice([64, 512])]
    pending = rng.randint(0, 12)
    objects += [a_pod(f"waits-{number}", "", *asked) for number in range(pending)]

    def fitting(extra):
        return sum(
            min((have + more) // want for have, more, want in zip(room[name], extra[name], asked, strict=True))
            for name in nodes
        )

    for each in objects:
        if each.document["kind"] == "Pod":
            each.document["spec"]["containers"][0]["name"] = "c"
    found = shrinking(Site(SimulatedCluster([each.build() for each in objects])), usage, percent)
    assert (found.freed["cpu"], found.freed["memory"]) == (freed[0], freed[1] * MEBI)
    assert found.pending == pending
    assert found.fit_now == min(pending, fitting({name: [0, 0] for name in nodes}))
    assert found.fit_then == min(pending, fitting(freed_on))


def one_deployment(*, limits=None):
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": limits or {}}}
    replica_set = {"kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": "shop", "uid": "rs"}}
    owners = [{"kind": "Deployment", "name": "web", "controller": True}]
    replica_set["metadata"]["ownerReferences"] = owners
    pod = {"kind": "Pod", "metadata": {"name": "web-1-x", "namespace": "shop", "uid": "p"}}
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]
    pod["spec"] = {"nodeName": "n1", "containers": [container]}
    node = make_node("n1").capacity(cpu="4", memory="8Gi", pods="9").document
    return [node, replica_set, pod]


def cluster_of(documents):
    from berth.api.codec import decode

    return SimulatedCluster([decode(each["kind"], each) for each in documents])


def test_the_command_patches_the_deployment_and_nothing_but_what_becomes_less():
    usage = {"shop/web": {"": Used(100, 600 * MEBI)}}
    (found,) = shrinking(Site(cluster_of(one_deployment())), usage).workloads
    words = shlex.split(found.command)
    assert words[:-1] == ["kubectl", "-n", "shop", "patch", "deployment", "web", "-p"]
    changed = {"name": "c", "resources": {"requests": {"cpu": "120m"}}}
    assert json.loads(words[-1]) == {"spec": {"template": {"spec": {"containers": [changed]}}}}
    assert not found.loses_guaranteed


def test_losing_the_quality_of_service_is_told():
    documents = one_deployment(limits={"cpu": "1", "memory": "512Mi"})
    (found,) = shrinking(Site(cluster_of(documents)), {"shop/web": {"c": Used(100, None)}}).workloads
    assert found.loses_guaranteed and found.containers[0].proposed == {"cpu": 120}


def test_nothing_is_said_of_what_was_not_measured():
    found = shrinking(Site(cluster_of(one_deployment())), {})
    assert (found.workloads, found.not_measured) == ((), ("Deployment shop/web",))


METRICS = {
    "kind": "PodMetricsList",
    "items": [
        {
            "metadata": {"name": "a", "namespace": "shop"},
            "containers": [{"name": "c", "usage": {"cpu": "12345678n", "memory": "2Mi"}}],
        }
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("u.yaml", "shop/a: {cpu: 100m, memory: 1Mi}\n", {"": Used(100, MEBI)}),
        ("u.json", '{"shop/a": {"cpu": 0.5}}', {"": Used(500, None)}),
        ("u.csv", "name,cpu,memory\nshop/a,100m,1Mi\nshop/a,200m,\n", {"": Used(200, MEBI)}),
        ("u.csv", "name,container,cpu\nshop/a,c,1\n", {"c": Used(1000, None)}),
        ("u.json", msgspec.json.encode(METRICS).decode(), {"c": Used(13, 2 * MEBI)}),
    ],
)
def test_usage_is_read_from_files(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert read_usage([tmp_path / name]) == {"shop/a": expected}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("u.yaml", "[]", "an object is expected"),
        ("u.yaml", "a: [", "not readable"),
        ("u.yaml", "web: {cpu: 1}", "'web' is not namespace/name"),
        ("u.yaml", "a/b: 1", "a/b: an object"),
        ("u.yaml", "a/b: {cpu: lots}", "a/b: cpu: 'lots'"),
        ("u.yaml", "a/b: {cpu: -1}", "less than nothing"),
        ("u.json", '{"items": [{}]}', "a PodMetrics without"),
        ("u.csv", "pod,cpu\n", "the first line names the columns"),
        ("u.csv", "name,cpu\na/b,x\n", "u.csv:2: a/b: cpu"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=None) as told:
        read_usage([tmp_path / name])
    assert words in str(told.value)


def test_pods_that_are_not_tried_are_told():
    gated = a_pod("gated", "web", 100, 64).gate("hold")
    objects = [make_node("n0").capacity(cpu="4", memory="8Gi", pods="9"), a_pod("bare", "", 100, 64, "n0"), gated]
    site = Site(SimulatedCluster([each.build() for each in objects]))
    assert shrinking(site, {}).notes == (
        "1 running pods were passed over: bare ones, of Jobs and the like, or with spec.resources",
        "1 pending pods are held back by scheduling gates, and were not tried",
    )
