"""GpuFragmentation: what a node scores is what counting by hand says, with device plugins and with DRA.

By hand: for each node, each typical pod and each kind of GPU, how many free GPUs can the pod not use, before and after?
"""

import random

import pytest

from berth.testing import VirtualCluster, check_plugin, make_node, make_object, make_pod
from berth_plugins.gpu_fragmentation import GpuFragmentation

PLUGINS = {"GpuFragmentation": GpuFragmentation}
GPU, SHARE, CLASS = "nvidia.com/gpu", "nvidia.com/gpu.shared", "gpu.example.com"


def scoring(config, *objects, also=(), **args):
    document = config("GpuFragmentation", *also, args=args)
    document["profiles"][0]["plugins"]["multiPoint"]["enabled"][0]["weight"] = 200  # more than NodeResourcesFit can say
    cluster = VirtualCluster(plugins=PLUGINS, config=document)
    for each in objects:
        cluster.put(each)
    return cluster


def plugin_of(cluster):
    plugins = cluster.core.profiles["default-scheduler"].plugins
    return next(each.plugin for each in plugins if each.name == "GpuFragmentation")


def node(name, cpu, **more):
    return make_node(name).capacity({"cpu": str(cpu), "memory": "64Gi", "pods": 20, GPU: 0, **more})


def typical(weight=1, devices=None, **requests):
    return {"weight": weight, "requests": requests, "devices": devices or {}}


def scores(cluster, pod):
    """The raw scores by node."""
    table, plugin = cluster.core.cache.table, plugin_of(cluster)
    return {table.names[row]: plugin.score(None, pod, table.view(row)) for row in table.rows().tolist()}


@pytest.mark.parametrize("typicals", [(), (typical(3, **{GPU: "1"}), typical(1, cpu="2", **{GPU: "4"}))])
def test_it_keeps_its_contract(config, typicals):
    args = {"resources": [{"name": GPU}], "typicalPods": list(typicals)}
    check_plugin(
        GpuFragmentation,
        config=config("GpuFragmentation", args=args),
        nodes=lambda rng, name: node(name, rng.choice((4, 8)), **{GPU: rng.choice((0, 2, 8))}),
        pods=lambda rng, name: make_pod(name).request({"cpu": "1", GPU: rng.choice((1, 2, 4))}),
        remembers=not typicals,  # which pods are typical is counted anew for every tenth that changes
    )


def by_hand(free, taken, pods, worth):
    """What a pod that takes so much adds to a node's expected fragments, in thousandths of a GPU, rounded down."""

    def fragments(left):
        total = 0
        for weight, wants in pods:
            fits = all(left.get(name, 0) >= amount for name, amount in wants.items()) and left["pods"] >= 1
            for kind, milli in worth.items():
                can_use = fits and wants.get(kind, 0) > 0
                total += 0 if can_use else weight * left.get(kind, 0) * milli
        return total

    after = {name: amount - taken.get(name, 0) for name, amount in free.items()}
    after["pods"] = free["pods"] - 1
    return (fragments(after) - fragments(free)) // sum(weight for weight, _ in pods)


def test_a_small_pod_does_not_take_a_gpu_that_larger_ones_need(config):
    """Typical pods want 4 GPUs. One of a node's 4 makes fragments of the other 3; one of the 3 left elsewhere, none."""
    objects = [node("whole", 32, **{GPU: 4}), node("broken", 32, **{GPU: 3})]
    cluster = scoring(config, *objects, typicalPods=[typical(cpu="4", **{GPU: "4"})])
    pod = make_pod("p").request({"cpu": "1", GPU: "1"})
    assert scores(cluster, pod.info()) == {"whole": -3000, "broken": 1000}
    cluster.put(pod)
    assert cluster.run().nodes_of()["p"] == "broken"


def test_a_pod_without_gpus_leaves_cpu_beside_gpus(config):
    objects = [node("gpus", 8, **{GPU: 4}), node("plain", 8)]
    cluster = scoring(config, *objects, typicalPods=[typical(cpu="6", **{GPU: "1"})])
    pod = make_pod("p").request(cpu="4")
    assert scores(cluster, pod.info()) == {"gpus": -4000, "plain": 0}
    cluster.put(pod)
    assert cluster.run().nodes_of()["p"] == "plain"


def test_without_given_pods_those_that_run_are_typical(config):
    there = [make_pod(f"big{number}").request({"cpu": "1", GPU: "4"}).node("full") for number in range(2)]
    objects = [node("full", 32, **{GPU: 8}), node("whole", 32, **{GPU: 4}), node("broken", 32, **{GPU: 2})]
    cluster = scoring(config, *objects, *there)
    pod = make_pod("p").request({"cpu": "1", GPU: "1"}).info()
    assert scores(cluster, pod) == {"full": 1000, "whole": -3000, "broken": 1000}
    for each in ("big0", "big1"):
        cluster.delete("Pod", f"default/{each}")
    cluster.put(make_pod("small").request({"cpu": "1", GPU: "1"}).node("full"))
    assert set(scores(cluster, pod).values()) == {0}  # any GPU is as good as any other now


def test_nothing_is_typical_at_first(config):
    cluster = scoring(config, node("a", 4, **{GPU: 1}))
    assert scores(cluster, make_pod("p").info()) == {"a": 0}


KINDS = {GPU: 1000, SHARE: 250, "nvidia.com/mig-1g": 143}


def random_pod(rng, name):
    wants = {"cpu": str(rng.randint(1, 6))}
    for kind in rng.sample(sorted(KINDS), rng.randint(0, 2)):
        wants[kind] = str(rng.randint(1, 3))
    return make_pod(name).request(wants)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("learns", [True, False])
def test_scores_and_choices_are_those_counted_by_hand(config, seed, learns):
    rng = random.Random(seed)
    pods = [(rng.randint(1, 5), random_pod(rng, "t").info().requests) for _ in range(rng.randint(1, 5))]
    given = [
        typical(weight, **{k: f"{v}m" if k == "cpu" else str(v) for k, v in wants.items()}) for weight, wants in pods
    ]
    resources = [{"name": name, "gpus": milli / 1000} for name, milli in KINDS.items()]
    args = {"resources": resources, "maxTypicalPods": 50} | ({} if learns else {"typicalPods": given})
    cluster = scoring(config, **args)
    for number in range(6):
        amounts = {kind: rng.randint(0, 6) for kind in KINDS}
        cluster.put(node(f"n{number}", rng.randint(2, 20), **amounts, pods=rng.randint(1, 8)))
    placed = 0
    for number in range(25):
        pod = random_pod(rng, f"p{number}")
        if rng.random() < 0.2 and placed:
            running = [key for (kind, key), obj in cluster.objects.items() if kind == "Pod" and obj.spec.node_name]
            if running:
                cluster.delete("Pod", rng.choice(running))
        table = cluster.core.cache.table
        if learns:
            there = [other.requests for row in table.rows().tolist() for other in table.pods[row].values()]
            running = [dict(each) for each in there if any(kind in each for kind in KINDS)]
            plugin_of(cluster)._changes = len(running) + 1  # as if all were new, so that they are counted anew
            pods = [(running.count(each), each) for i, each in enumerate(running) if each not in running[:i]]
        expected, fits = {}, {}
        taken = pod.info().requests
        for row in table.rows().tolist():
            view = table.view(row)
            free = {name: view.allocatable[name] - view.requested.get(name, 0) for name in view.allocatable}
            free["pods"] = view.allowed_pods - len(view.pods)
            expected[view.name] = -by_hand(free, taken, pods, KINDS) if pods else 0
            wanted = {**taken, "pods": 1}
            fits[view.name] = all(free.get(name, 0) >= amount for name, amount in wanted.items())
        found = scores(cluster, pod.info())
        assert {n: found[n] for n in fits if fits[n]} == {n: expected[n] for n in fits if fits[n]}
        cluster.put(pod)
        chosen = cluster.run().nodes_of()[f"p{number}"]
        best = max((expected[name] for name in fits if fits[name]), default=None)
        if best is None:
            assert chosen == ""
            cluster.delete("Pod", f"default/p{number}")
        else:
            placed += 1
            span = [expected[name] for name in fits if fits[name]]
            assert fits[chosen]
            # Scores are stretched to 0 to 100, so that what is nearly the best may count as such.
            assert (expected[chosen] - min(span)) * 100 // max(max(span) - min(span), 1) == (
                100 if min(span) < best else 0
            )
    assert placed


# -- DRA ---------------------------------------------------------------------------------------------------------------


def devices(node_name, count):
    spec = {
        "driver": CLASS,
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(count)],
    }
    return make_object({"kind": "ResourceSlice", "metadata": {"name": node_name, "uid": node_name}, "spec": spec})


def claim(name, count=1, allocated=(), version=1):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": count}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    document = {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": requests}}}
    if allocated:
        results = [{"request": "gpu", "driver": CLASS, "pool": pool, "device": device} for pool, device in allocated]
        document["status"] = {"allocation": {"devices": {"results": results}}}
    return make_object(document)


DRA = {"resources": [], "deviceClasses": [{"name": CLASS, "driver": CLASS}]}


def test_claims_devices_count_as_gpus(config):
    wants_four = typical(cpu="1", devices={CLASS: 4})
    objects = [node("whole", 8), node("broken", 8), devices("whole", 4), devices("broken", 4)]
    used = claim("used", 1, [("broken", "gpu-0")])
    cluster = scoring(config, *objects, used, claim("mine"), typicalPods=[wants_four], **DRA)
    pod = make_pod("p").request(cpu="1").resource_claim("gpu", "mine").info()
    assert scores(cluster, pod) == {"whole": -3000, "broken": 1000}
    cluster.put(claim("used", 1, version=2))  # it is free again
    assert scores(cluster, pod) == {"whole": -3000, "broken": -3000}
    plugin_of(cluster).reserve(None, pod, "whole")  # where it has its device in a moment
    other = make_pod("other").request(cpu="1").resource_claim("gpu", "used").info()
    assert scores(cluster, other) == {"whole": 1000, "broken": -3000}
    cluster.put(claim("mine", 1, [("whole", "gpu-3")], version=2))
    assert scores(cluster, other) == {"whole": 1000, "broken": -3000}
    plugin_of(cluster).unreserve(None, pod, "whole")  # which changes nothing any more
    assert scores(cluster, other) == {"whole": 1000, "broken": -3000}
    cluster.delete("ResourceClaim", "default/mine")
    assert scores(cluster, other) == {"whole": -3000, "broken": -3000}
    cluster.delete("ResourceSlice", "whole")
    assert scores(cluster, other) == {"whole": 1000, "broken": -3000}  # without devices it would not fit there at all


@pytest.mark.parametrize("seed", range(10))
def test_devices_that_are_free_are_those_counted_by_hand(config, seed):
    rng = random.Random(seed)
    cluster = scoring(config, **DRA)
    plugin, held = plugin_of(cluster), {}
    names = [f"n{number}" for number in range(4)]
    published = dict.fromkeys(names, 4)
    for name in names:
        cluster.put(devices(name, 4))
    for step in range(40):
        what, key = rng.random(), f"c{rng.randrange(6)}"
        if what < 0.5:
            taken = {place for places in held.values() for place in places}
            free = [(n, f"gpu-{i}") for n in names for i in range(published[n]) if (n, f"gpu-{i}") not in taken]
            held[key] = rng.sample(free, min(rng.randint(0, 2), len(free)))
            cluster.put(claim(key, 1, held[key], step + 2))
        elif what < 0.8 and key in held:
            del held[key]
            cluster.delete("ResourceClaim", f"default/{key}")
        elif what < 0.9:
            name = rng.choice(names)
            published[name] = rng.randint(1, 4)
            cluster.put(devices(name, published[name]))
        plugin._devices.follow()
        places = [place for mine in held.values() for place in mine]
        on = {n: sum(p == n and int(d[4:]) < published[n] for p, d in places) for n in names}
        assert plugin._devices.free(CLASS) == {n: published[n] - on[n] for n in names}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"resources": []}, "resources: Required value"),
        ({"resources": [{"gpus": 1}]}, r"resources\[0\].name"),
        ({"resources": [{"name": GPU, "gpus": 0}]}, r"resources\[0\].gpus"),
        ({"typicalPods": [{"weight": 0}]}, r"typicalPods\[0\].weight"),
        ({"maxTypicalPods": 0}, "maxTypicalPods"),
    ],
)
def test_wrong_args_are_refused(config, args, words):
    with pytest.raises(ValueError, match=words):
        scoring(config, **args)


def test_what_is_kept_is_bounded(config):
    nodes = node("a", 64, pods=200, **{GPU: 1}), node("b", 64, pods=200)
    cluster = scoring(config, *nodes, typicalPods=[typical(cpu="1", **{GPU: "1"})])
    for number in range(100):
        cluster.put(make_pod(f"p{number}").request(cpu=f"{number + 1}m"))
        cluster.run()
    assert len(plugin_of(cluster)._kept) == 64


@pytest.mark.parametrize("is_there", [False, True])
def test_it_says_how_many_fragments_there_are_before_and_after(config, is_there):
    """Of 4 GPUs a typical pod of 4 can use all; once one is gone, the 3 that are left are fragments."""
    cluster = scoring(config, node("whole", 32, **{GPU: 4}), typicalPods=[typical(cpu="4", **{GPU: "4"})])
    pod = make_pod("p").request({"cpu": "1", GPU: "1"})
    if is_there:
        cluster.put(pod.copy().node("whole"))
    table = cluster.core.cache.table
    assert plugin_of(cluster).explain_score(pod.info(), table.view(table.row_of["whole"])) == [
        "4 GPUs are free; 0 of them are fragments to 1 kind(s) of typical pods on average, 3 once this pod is there"
    ]


def test_without_typical_pods_it_says_so(config):
    cluster = scoring(config, node("whole", 32, **{GPU: 4}))
    table = cluster.core.cache.table
    (told,) = plugin_of(cluster).explain_score(make_pod("p").info(), table.view(table.row_of["whole"]))
    assert told.startswith("no pods are known yet that ask for GPUs")
