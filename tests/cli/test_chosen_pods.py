"""`berth explain` of a workload and of a selector: which pods the API server has for them, and how they are told.

Whose pods are whose follows the documentation of owner references: the controller's uid counts, and labels alone do
not make a pod a workload's.
"""

import asyncio
import json

import pytest
from aiohttp import web
from click.testing import CliRunner

from berth.api.selectors import parse_label_selector
from berth.cli import explain as explaining
from berth.cli import main
from berth.cli.chosen_pods import chosen_by, label_selector
from packages.scheduler.tests.cli.test_connection import kubeconfig, listening

PAGE = 2


def made(kind, name, uid="", owner="", labels=None, namespace="default", node="", **spec):
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"{kind}-{name}", "labels": labels or {}}
    if owner:
        metadata["ownerReferences"] = [{"uid": "not-in-control"}, {"uid": owner, "controller": True}]
    spec = spec | ({"nodeName": node} if node else {})
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


def lacking(kind, name, uid, namespace="full", **spec):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return made(kind, name, uid, namespace=namespace, selector={"matchLabels": labels}, template=template, **spec)


def one_of(kind, name, uid, namespace="full"):
    found = made("Pod", f"{name}-0", "", uid, {"app": name}, namespace, "n1", containers=[{"name": "c", "image": "i"}])
    found["metadata"]["ownerReferences"][-1] |= {"apiVersion": "v1", "kind": kind, "name": name}
    return found


WEB, OTHER = {"app": "web"}, {"app": "other"}
REFUSED = {
    "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
    "message": 'pods "few-1-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
}  # fmt: skip
OBJECTS = {
    "deployments": [
        made("Deployment", "web", "D", selector={"matchLabels": WEB}),
        made("Deployment", "empty", selector={"matchLabels": {"app": "none"}}),
        made("Deployment", "few", "F", namespace="tight", selector={"matchLabels": {"app": "few"}}, replicas=3)
        | {"status": {"conditions": [REFUSED]}},
    ],
    "replicasets": [
        made("ReplicaSet", "web-1", "R1", "D", WEB),
        made("ReplicaSet", "web-2", "R2", "D", WEB),
        made("ReplicaSet", "like-web", "R3", "X", WEB),
        made("ReplicaSet", "few-1", "R4", "F", {"app": "few"}, namespace="tight"),
    ],
    "statefulsets": [
        made("StatefulSet", "db", "S", selector={"matchLabels": {"app": "db"}}),
        lacking("StatefulSet", "stateful", "T", replicas=3),
        lacking("StatefulSet", "unready", "U", namespace="roomy", replicas=3),
    ],
    "jobs": [
        lacking("Job", "batch", "J", parallelism=4, completions=3) | {"status": {"succeeded": 1}},
        lacking("Job", "ended", "E", parallelism=4, completions=4)
        | {"status": {"succeeded": 3, "failed": 7, "conditions": [{"type": "Failed", "status": "True"}]}},
    ],
    "resourcequotas": [
        {
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "full", "labels": {}},
            "spec": {"hard": {"pods": "3"}},
        },
    ],
    "pods": [
        *(made("Pod", f"web-1-{n}", owner="R1", labels=WEB, node="n1") for n in range(3)),
        made("Pod", "web-2-a", owner="R2", labels=WEB),
        made("Pod", "like-web-a", owner="R3", labels=WEB, node="n1"),
        made("Pod", "bare", labels=WEB, node="n2"),
        made("Pod", "db-0", owner="S", labels={"app": "db"}, node="n2"),
        made("Pod", "far", labels=OTHER, namespace="far", node="n2"),
        one_of("StatefulSet", "stateful", "T"),
        one_of("StatefulSet", "unready", "U", namespace="roomy"),
        one_of("Job", "batch", "J"),
        one_of("Job", "ended", "E"),
        made("Pod", "few-1-a", owner="R4", labels={"app": "few"}, namespace="tight", node="n1"),
    ],
}


class Cluster:
    """An API server, and the scheduler of its pods; both on one port."""

    def __init__(self):
        self.asked = []
        self.unknown = set()

    def routes(self):
        return [
            web.get("/debug/decisions/{namespace}/{name}", self.decision),
            web.get("/debug/pods", self.placed),
            web.get("/debug/queue", self.queue),
            web.get("/apis/{group:apps|batch}", self.versions),
            web.get("/apis/{group:apps|batch}/v1", self.resources),
            web.get("/{base:api|apis/apps|apis/batch}/v1/{plural}", self.listed),
            web.get("/{base:api|apis/apps|apis/batch}/v1/namespaces/{namespace}/{plural}", self.listed),
            web.get("/{base:api|apis/apps|apis/batch}/v1/namespaces/{namespace}/{plural}/{name}", self.one),
        ]

    def _matching(self, request):
        selector = parse_label_selector(request.query.get("labelSelector", ""))
        namespace = request.match_info.get("namespace")
        for each in OBJECTS.get(request.match_info["plural"], ()):
            metadata = each["metadata"]
            if selector.matches(metadata["labels"]) and namespace in (None, metadata["namespace"]):
                yield each

    async def versions(self, _request):
        return web.json_response({"versions": [{"version": "v1"}]})

    async def resources(self, request):
        plurals = {"apps": ("deployments", "replicasets", "statefulsets"), "batch": ("jobs",)}
        found = [{"name": each, "namespaced": True} for each in plurals[request.match_info["group"]]]
        return web.json_response({"resources": found})

    async def listed(self, request):
        found, begin = list(self._matching(request)), int(request.query.get("continue") or 0)
        more = str(begin + PAGE) if len(found) > begin + PAGE else ""
        return web.json_response(
            {"metadata": {"continue": more, "resourceVersion": "1"}, "items": found[begin : begin + PAGE]}
        )

    async def one(self, request):
        for each in self._matching(request):
            if each["metadata"]["name"] == request.match_info["name"]:
                return web.json_response(each)
        return web.json_response({"kind": "Status", "reason": "NotFound", "message": "gone", "code": 404}, status=404)

    async def decision(self, request):
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        self.asked.append(f"{namespace}/{name}")
        there = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in OBJECTS["pods"]}
        if name in self.unknown or (namespace, name) not in there:
            return web.json_response({"error": f"nothing is known of pod {namespace}/{name}"}, status=404)
        return web.json_response(report(f"{namespace}/{name}"))

    async def placed(self, request):
        pods = [each for each in OBJECTS["pods"] if each["spec"].get("nodeName")]
        spaces = ["default", "far", "tight", "full", "roomy"]
        workloads = ["", "Deployment/web"]
        return web.json_response(
            {
                "names": [each["metadata"]["name"] for each in pods],
                "namespaces": {"names": spaces, "of": [spaces.index(each["metadata"]["namespace"]) for each in pods]},
                "workloads": {
                    "names": workloads,
                    "of": [int(each["metadata"]["name"].startswith("web-")) for each in pods],
                },
            }
        )

    async def queue(self, request):
        return web.json_response({"pods": [{"pod": "default/web-2-a"}]})


def report(key):
    """As the scheduler tells of a pod: docs/outputs.md has the fields."""
    decision = {
        "pod": key, "node": "n1", "summary": f"{key} goes to n1: 2 of 3 nodes fit", "message": "", "best": [],
        "rejected": [], "nodes": [], "weights": {}, "profile": "", "time": "2026-01-02T03:04:05Z", "attempts": 1,
        "postFilter": None,
    }  # fmt: skip
    if key != "default/web-2-a":
        return {"pod": key, "decision": decision, "pending": None}
    message = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 no victims."
    pending = {"pod": key, "queue": "unschedulable", "since": "", "attempts": 1, "gatedBy": "", "waitsFor": {}}
    pending["backoffUntil"] = None
    return {"pod": key, "decision": {**decision, "node": None, "message": message}, "pending": pending}


@pytest.fixture
async def explain(tmp_path):
    """Runs `berth explain` against a cluster, which is `explain.cluster`."""
    cluster = Cluster()
    async with listening(cluster.routes()) as port:
        address = f"http://127.0.0.1:{port}"

        async def run(*arguments, code=0):
            line = ["explain", *arguments, "--server", address]
            environment = {"KUBECONFIG": str(kubeconfig(tmp_path, address))}
            done = await asyncio.to_thread(CliRunner(env=environment).invoke, main, line)
            assert done.exit_code == code, done.output
            return done

        run.cluster = cluster
        run.kubeconfig = ("--kubeconfig", str(kubeconfig(tmp_path, address)))
        yield run


async def test_a_deployments_pods_are_those_of_its_replica_sets_those_without_a_node_first(explain):
    names = (await explain("deploy/web", "-o", "name")).stdout.split()
    assert names == ["default/web-2-a", "default/web-1-0", "default/web-1-1", "default/web-1-2"]


@pytest.mark.parametrize("typed", ["sts/db", "statefulset/db", "StatefulSets.apps/db"])
async def test_a_workload_is_named_as_kubectl_takes_and_prints_it(explain, typed):
    assert (await explain(typed, "-o", "name")).stdout == "default/db-0\n"


async def test_a_selector_looks_into_one_namespace_or_into_all(explain):
    assert (await explain("-l", "app!=web", "-o", "name")).stdout.split() == ["default/db-0"]
    assert (await explain("-A", "-l", "app in (other,db)", "-o", "name")).stdout.split() == ["default/db-0", "far/far"]
    assert (await explain("-n", "far", "-l", "app", "-o", "name")).stdout.split() == ["far/far"]


async def test_more_than_three_pods_are_a_table_with_a_row_each(explain):
    lines = (await explain("deploy/web")).stdout.splitlines()
    assert lines == [
        "4 pods: 3 have a node, 1 have none",
        "Pod              Node  State    Why",
        "default/web-2-a  -     pending  0/3 nodes are available: 3 Insufficient cpu.",
        "default/web-1-0  n1    placed   2 of 3 nodes fit",
        "default/web-1-1  n1    placed   2 of 3 nodes fit",
        "default/web-1-2  n1    placed   2 of 3 nodes fit",
    ]


async def test_the_table_is_capped_and_only_what_it_shows_is_asked_for(explain, monkeypatch):
    monkeypatch.setattr(explaining, "ROWS_SHOWN", 2)
    lines = (await explain("deploy/web")).stdout.splitlines()
    assert lines[0] == "4 pods: 3 have a node, 1 have none"
    assert lines[-1] == "… and 2 more; -o wide lists all of them"
    assert explain.cluster.asked == ["default/web-2-a", "default/web-1-0"]
    assert (await explain("deploy/web", "-o", "wide")).stdout.count("default/web-1-") == 3
    assert len(json.loads((await explain("deploy/web", "-o", "json")).stdout)["pods"]) == 4


async def test_up_to_three_pods_are_told_whole(explain):
    said = (await explain("-l", "app=db")).stdout
    assert said.startswith("default/db-0 goes to n1: 2 of 3 nodes fit")


async def test_a_workload_whose_pods_the_api_server_refuses_says_so_first(explain):
    first, _, then = (await explain("deploy/few", "-n", "tight")).stdout.partition("\n\n")
    assert first == (
        "Deployment tight/few has 1 of its 3 pods: the API server refuses more: "
        'pods "few-1-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1.'
    )
    assert then.startswith("tight/few-1-a goes to n1")


@pytest.mark.parametrize(
    ("typed", "has"),
    [("sts/stateful", "StatefulSet full/stateful has 1 of its 3"), ("job/batch", "Job full/batch has 1 of its 2")],
)
async def test_no_condition_says_so_of_a_stateful_set_or_a_job_so_admission_is_asked(explain, typed, has):
    first, _, then = (await explain(typed, "-n", "full", *explain.kubeconfig)).stdout.partition("\n\n")
    why = "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
    assert first == f"{has} pods: the API server refuses more: {why}."
    assert then.startswith("full/")


@pytest.mark.parametrize(("typed", "namespace"), [("sts/unready", "roomy"), ("job/ended", "full")])
async def test_what_may_make_pods_or_wants_none_is_not_refused_any(explain, typed, namespace):
    assert "refuses" not in (await explain(typed, "-n", namespace, *explain.kubeconfig)).stdout


async def test_a_pod_that_the_scheduler_does_not_know_is_told_from_the_cluster(explain):
    explain.cluster.unknown = {"web-1-1", "db-0"}
    lines = (await explain("deploy/web")).stdout.splitlines()
    assert "default/web-1-1  n1    running" in lines
    assert "default/db-0 is on node n2 (Running)" in (await explain("sts/db")).stdout


async def test_nobody_is_asked_whether_they_meant_what_they_said(explain):
    explain.cluster.unknown = {"web-1-1"}
    told = (await explain("web-1-1", code=1)).stderr
    assert "nothing is known of pod default/web-1-1" in told and "did you mean" not in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deploy/wbe",), "there is no Deployment default/wbe; did you mean web?"),
        (("deploy/zzz",), "there is no Deployment default/zzz; there are web, empty"),
        (("job/train",), "there is no Job default/train; there is no Job in namespace default, -n names another"),
        (("deploy/empty",), "Deployment default/empty has no pods"),
        (("-l", "app=nobody"), "no pod in namespace default has the labels app=nobody; -A looks into all namespaces"),
        (("web",), "web is a Deployment: Deployment/web tells of its pods"),
        (("wbe",), "did you mean Deployment/web?"),
        (("web-1",), "did you mean web-1-0 or web-1-1 or web-1-2?"),
        (("web-1-9",), "did you mean web-1-"),
        (("far",), "did you mean far/far?"),
    ],
)
async def test_what_is_not_there_is_told_with_what_may_have_been_meant(explain, arguments, said):
    assert said in (await explain(*arguments, code=1)).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("web", "-l", "app=web"), "-l chooses pods by their labels: name none beside it"),
        (("web", "-A"), "a name is looked for in one namespace"),
        (("-A", "-n", "shop"), "--namespace has no effect with --all-namespaces"),
        (("-l", "app in (web"), "is not a label requirement"),
    ],
)
async def test_what_does_not_go_together_is_refused(explain, arguments, said):
    assert said in (await explain(*arguments, code=2)).stderr


async def test_a_template_is_filled_with_what_json_has(explain):
    template = 'jsonpath={range .pods[*]}{.pod}={.decision.node}{"\\n"}{end}'
    said = (await explain("deploy/web", "-o", template)).stdout
    assert said.splitlines()[:2] == ["default/web-2-a=", "default/web-1-0=n1"]


@pytest.mark.parametrize(
    ("selector", "written"),
    [
        ({"matchLabels": {"a": "b", "c": "d"}}, "a=b,c=d"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, "a in (b,c)"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, "a notin (b)"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]}, "a,!b"),
    ],
)
def test_a_selector_is_written_as_queries_have_it(selector, written):
    assert label_selector(selector) == written
    parse_label_selector(written)  # and can be read


def test_a_slash_separates_a_kind_or_else_a_namespace():
    chosen = chosen_by(["a", "shop/b", "pod/c", "po/d", "job/e"], "team")
    assert [pod.key for pod in chosen.names] == ["team/a", "shop/b", "team/c", "team/d"]
    assert [(kind.kind, *rest) for kind, *rest in chosen.workloads] == [("Job", "team", "e")]
