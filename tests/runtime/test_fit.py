"""`POST /fit`: what fits and what does not, that asking changes nothing, and what is refused."""

import asyncio
import json
import random

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.questions import choose
from berth.runtime.serving.fit import FitRefused, asked_pod, fit_report
from berth.testing.invariants import check
from berth_workbench.simulation.cluster import SimulatedCluster
from tests.effort import examples
from tests.runtime.test_secure_serving import a_cluster, served, unverified
from tests.runtime.test_serving import at_work, is_settled
from tests.runtime.world import World
from tests.waiting import until
from tests.workbench.planning import checker
from tests.workbench.planning.worlds import bound, random_pod, random_world

JSON = "application/json"


def node(name, cpu="4"):
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods="10")


def asked(manifest):
    return asked_pod(JSON, json.dumps(manifest).encode())


def manifest(cpu="1", kind="Pod", **metadata):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", **metadata}, "spec": spec}
    template = {"metadata": {"labels": {"app": "new"}}, "spec": spec}
    of_kind = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    return {"kind": kind, "metadata": {"name": "new", **metadata}, "spec": of_kind}


def test_where_it_fits_with_scores_or_why_not():
    running = make_pod("x").request(cpu="3").node("a")
    core = SimulatedCluster([each.build() for each in (node("a"), node("b", "2"), running)]).core
    found = fit_report(core, asked(manifest("2")))
    assert (found.fits, found.node, found.pod, found.message) == (True, "b", "default/new", "")
    assert found.decision.feasible_count == 1
    both = fit_report(core, asked(manifest("1")))
    assert {each.node for each in both.decision.best} == {"a", "b"} and both.decision.weights
    not_at_all = fit_report(core, asked(manifest("3")))
    assert (not_at_all.fits, not_at_all.node) == (False, None)
    assert not_at_all.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert not_at_all.decision.shortfalls[0].resource == "cpu"


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob", "ReplicationController"])
def test_of_a_workload_one_pod_is_asked_about(kind):
    core = SimulatedCluster([node("a").build()]).core
    found = fit_report(core, asked(manifest(kind=kind, namespace="shop")))
    assert (found.fits, found.pod, found.kind) == (True, "shop/new", kind)
    assert found.notes == (f"one pod of the {kind} was asked about, whatever its replicas",)


def test_it_fits_where_the_rules_written_down_a_second_time_say():
    answers = set()
    for seed in range(examples(40)):
        rng = random.Random(seed)
        nodes, running = random_world(rng)
        pod = random_pod(rng, "asked", "asked")
        cluster = SimulatedCluster(_built(nodes, running))
        found = fit_report(cluster.core, asked(pod))
        places = {each["metadata"]["name"] for each in nodes if checker.fits(pod, each, nodes, running)}
        assert found.fits is bool(places), f"seed {seed}"
        assert found.node is None or found.node in places, f"seed {seed}"
        answers.add(found.fits)
    assert answers == {True, False}


def _built(nodes, running):
    from berth_workbench.snapshot.documents import Document

    for each in (*nodes, *(bound(pod, node) for pod, node in running)):
        yield Document(each["kind"], json.dumps(each).encode(), "world").struct()


def test_asking_changes_nothing_not_even_the_next_lot():
    """Of two cores with the same seed, one is asked all the time; the same pods get the same nodes."""
    placements = []
    for asks in (False, True):
        cluster = SimulatedCluster([node(f"n{i}").build() for i in range(6)], seed=7)
        for number in range(12):
            if asks:
                before = (cluster.rng.getstate(), cluster.core.search.start_index, dict(cluster.objects))
                fit_report(cluster.core, asked(manifest("500m")))
                fit_report(cluster.core, asked(manifest("9")))
                assert before == (cluster.rng.getstate(), cluster.core.search.start_index, dict(cluster.objects))
            cluster.put(make_pod(f"p{number}").request(cpu="500m").build())
            cluster.settle()
        check(cluster.core)
        placements.append(cluster.placements)
    assert placements[0] == placements[1]
    # What a cycle would draw is drawn where the core's own search is asked.
    state = cluster.rng.getstate()
    choose(cluster.core, make_pod("other").request(cpu="100m").build())
    assert cluster.rng.getstate() != state


def test_a_plugin_that_breaks_ends_the_answer_only():
    class Broken:
        name = "Broken"

        def __init__(self, args, handle):
            pass

        def filter(self, state, pod, node):
            raise RuntimeError("of no use")

    from berth.core.virtual_cluster import VirtualCluster

    core = VirtualCluster(node("a").build(), plugins=[Broken]).core
    found = fit_report(core, asked(manifest()))
    assert (found.fits, found.decision.outcome) == (False, "error")
    assert "Broken" in found.message and "of no use" in found.message


def test_a_cluster_without_nodes():
    found = fit_report(SimulatedCluster([]).core, asked(manifest()))
    assert (found.fits, found.node) == (False, None) and found.message


@pytest.mark.parametrize(
    ("kind", "body", "status", "said"),
    [
        ("text/plain", b"{}", 415, "application/json"),
        (JSON, b"{", 400, "line 2, column 1"),
        (JSON, b"[]", 400, "the manifest of a pod or workload is expected"),
        (JSON, b'{"kind": "DaemonSet"}', 400, "not 'DaemonSet'"),
        (JSON, b'{"kind": "Deployment", "spec": {}}', 400, "spec.template: the template of a pod is missing"),
        (JSON, b'{"kind": "Pod", "spec": {}}', 400, "spec.containers"),
        (JSON, b'{"kind": "Pod", "spec": {"containers": [{"name": 3}]}}', 400, "name"),
    ],
)
def test_what_cannot_be_asked(kind, body, status, said):
    with pytest.raises(FitRefused, match=said) as refused:
        asked_pod(kind, body)
    assert refused.value.status == status


def test_no_profile_schedules_for_it():
    core = SimulatedCluster([node("a").build()]).core
    other = manifest()
    other["spec"]["schedulerName"] = "other"
    with pytest.raises(FitRefused, match="no profile schedules for 'other'; there are default-scheduler") as refused:
        fit_report(core, asked(other))
    assert refused.value.status == 422


# -- over HTTP -------------------------------------------------------------------------------------------------------


async def post(client, body, kind=JSON, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = client._url + "/fit"
    async with client._session.post(url, data=data, headers={"Content-Type": kind, **headers}) as answer:
        return answer.status, await answer.text()


async def test_asked_over_http():
    world = World(nodes=2, cpu="1")
    world.add_pod("web")
    world.add_pod("big", cpu="5")
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        status, said = await post(client, manifest("1"))
        found = json.loads(said)
        assert (status, found["fits"], found["decision"]["nodeCount"]) == (200, True, 2)
        status, said = await post(client, b"kind: Pod\nspec: {containers: [{name: c}]}\n", "application/yaml")
        assert (status, json.loads(said)["fits"]) == (200, True)
        assert (await post(client, manifest(), "text/plain"))[0] == 415
        assert (await post(client, b"x" * 70_000))[0] == 413
        assert (await post(client, manifest(), Host="evil.example"))[0] == 403
        assert (await client.text("/fit"))[0] == 405
        many = await asyncio.gather(*(post(client, manifest()) for _ in range(30)))
        assert {code for code, _ in many} <= {200, 429}
        assert [status for status, _ in many].count(200) >= 4


async def test_who_may_ask_is_the_api_servers_word(tmp_path):
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:

        async def ask(token=""):
            headers = {"Content-Type": JSON} | ({"Authorization": f"Bearer {token}"} if token else {})
            url, data = f"https://127.0.0.1:{port.port}/fit", json.dumps(manifest())
            async with port._session.post(url, data=data, headers=headers, ssl=unverified()) as answer:
                return answer.status, await answer.text()

        status, said = await ask()
        assert status == 403 and 'User \\"system:anonymous\\" cannot post path \\"/fit\\"' in said
        assert (await ask("nobody-token"))[0] == 403
        assert (await ask("wrong"))[0] == 401
        assert (await ask(cluster.token))[0] == 503  # it follows nothing yet; but this may be known
