"""Admission stands in front of what is created in a simulated cluster, and of what controllers make again.

The words are those of the API server; `tests/test_one_admission.py` holds random manifests against the embedded one.
"""

import msgspec
import pytest

from berth_workbench.planning.survival import survival
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.changes import DeleteWorkload, RemoveNodes, Scale
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.steps import Manifests
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot

FULL = "exceeded quota: few, requested: pods=1, used: pods={0}, limited: pods={1}"


def document(manifest):
    metadata = manifest["metadata"]
    return Document(
        manifest["kind"], msgspec.json.encode(manifest), "a test", manifest.get("apiVersion", ""),
        metadata.get("namespace", ""), metadata["name"],
    )  # fmt: skip


def node(name, cpu="8"):
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def quota(pods, **more):
    hard = {"pods": str(pods), **more}
    return {"kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": hard}}


def workload(name, replicas, kind="Deployment", **more):
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    }
    return {
        "kind": kind, "apiVersion": "apps/v1", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **more},
    }  # fmt: skip


def site_of(*objects):
    return Site.of(Snapshot([document(each) for each in objects]))


def applied(*manifests):
    return Manifests([document(each) for each in manifests], "apply")


def whys(site):
    return [each.why for each in site.cluster.refused.values()]


def test_a_replica_set_makes_pods_until_it_is_refused_and_goes_on_when_others_are_gone():
    site = site_of(node("n0"), quota(3))
    run = WhatIfRun(site).run([applied(workload("a", 2)), applied(workload("b", 3)), DeleteWorkload("deployment/a")])
    assert whys(site) == []
    assert run.steps[1].pending == 0 and run.after.pods == 3
    assert {pod.metadata.labels["app"] for pod in site.cluster.pods.values()} == {"b"}


def test_what_is_refused_has_no_place_and_counts_for_nothing():
    site = site_of(node("n0"), quota(3))
    result = WhatIfRun(site).run([applied(workload("web", 5)), Scale("deployment/web", 4)])
    assert whys(site) == [FULL.format(3, 3)]
    assert [(each.node is None, each.is_refused) for each in result.pods] == [(False, False)] * 3 + [(True, True)]
    assert result.after.pods == 3
    told = f"the API server refuses pod {next(iter(site.cluster.refused))}: {FULL.format(3, 3)}"
    assert list(site.cluster.refused_in_words()) == [told]


def test_a_pod_that_is_made_again_may_be_refused_where_the_quota_was_narrowed_since():
    made = [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"web-{number}", "namespace": "default", "labels": {"app": "web"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}],
            },
            "spec": {"nodeName": f"n{number}", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running"},
        }
        for number in range(3)
    ]  # fmt: skip
    objects = [*map(node, ("n0", "n1", "n2")), quota(2), *made]
    result = WhatIfRun(site_of(*objects)).run([RemoveNodes("n0")])
    assert [(each.name, each.reason) for each in result.broken] == [("default/web-0", "NoLongerRuns")]
    assert result.broken[0].message.endswith(FULL.format(2, 2))
    found = survival(site_of(*objects), kinds=("node",))
    assert [each.unplaced for each in found.failures] == [1, 1, 1]
    found = survival(site_of(*[each for each in objects if each["kind"] != "ResourceQuota"]), kinds=("node",))
    assert [each.unplaced for each in found.failures] == [0, 0, 0]


@pytest.mark.parametrize(
    ("namespace", "why"),
    [
        ({"name": "other"}, 'namespaces "default" not found'),
        (
            {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "unable to create new content in namespace default because it is being terminated",
        ),
    ],
)
def test_nothing_comes_into_a_namespace_that_is_not_there_or_goes(namespace, why):
    spaces = [{"kind": "Namespace", "metadata": each} for each in (namespace, {"name": "kube-system"})]
    result = WhatIfRun(site_of(node("n0"), *spaces)).run([applied(workload("web", 1))])
    assert [(each.reason, each.message) for each in result.broken] == [("Refused", f"is refused: {why}")]
    with_it = applied({"kind": "Namespace", "metadata": {"name": "default"}}, workload("web", 1))
    if namespace["name"] == "other":
        assert WhatIfRun(site_of(node("n0"), *spaces)).run([with_it]).broken == ()


def test_a_workload_that_a_quota_of_objects_refuses_has_no_pods():
    limited = quota(9, **{"count/deployments.apps": "1"})
    site = site_of(node("n0"), limited)
    result = WhatIfRun(site).run([applied(workload("a", 1), workload("b", 1))])
    (broken,) = result.broken
    assert (broken.kind, broken.name, len(site.cluster.pods)) == ("Deployment", "default/b", 1)
    assert broken.message == (
        "is refused: exceeded quota: few, requested: count/deployments.apps=1, used: count/deployments.apps=1, "
        "limited: count/deployments.apps=1"
    )


def test_a_stateful_sets_pod_waits_for_a_claim_that_is_refused():
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    stateful = workload("db", 2, "StatefulSet", serviceName="db", volumeClaimTemplates=[claim])
    site = site_of(node("n0"), quota(9, persistentvolumeclaims="1"))
    WhatIfRun(site).run([applied(stateful)])
    assert list(site.cluster.pods) == ["default/db-0"]
    (why,) = whys(site)
    assert why.startswith('persistentvolumeclaims "data-db-1" is forbidden: exceeded quota: few, requested: persist')


def test_a_trial_that_is_taken_back_leaves_quotas_as_they_were():
    site = site_of(node("n0"), quota(2))
    for _ in range(2):
        site.cluster.begin()
        WhatIfRun(site).run([applied(quota(4), workload("web", 3))])
        assert (len(site.cluster.pods), whys(site)) == (3, [])
        site.cluster.undo()
        site.cluster.begin()
        WhatIfRun(site).run([applied(workload("web", 3))])
        assert (len(site.cluster.pods), whys(site)) == (2, [FULL.format(2, 2)])
        site.cluster.undo()
        assert not site.cluster.refused and not site.cluster.pods
