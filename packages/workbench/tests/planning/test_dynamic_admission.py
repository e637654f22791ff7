"""Every answer about manifests names the webhooks and admission policies that nobody asks here.

Expectations follow kubernetes.io, "Dynamic Admission Control" (rules, selectors), "Validating Admission Policy" and
"Mutating Admission Policy" (bindings, `validationActions`).
"""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.planning.dynamic_admission import DYNAMIC, NOT_KNOWN, unasked_about
from berth_workbench.snapshot.documents import UnreadableObject
from berth_workbench.snapshot.header import MAY_NOT, NOT_SERVED, Header, Missing
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.writer import taken_from_files
from packages.workbench.tests.simulation.test_admission import document, node, workload

GROUP = "admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
BEGINNING = "webhooks and admission policies are not asked here; of this cluster's, "


def configuration(name, *rules, kind="Mutating", **more):
    hook = {"name": f"{name}.example.com", "rules": list(rules), "clientConfig": {"url": "https://a"}, **more}
    return {
        "apiVersion": GROUP, "kind": f"{kind}WebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook],
    }  # fmt: skip


def policy(name, *rules, kind="Validating", **more):
    spec = {"matchConstraints": {"resourceRules": list(rules), **more}, "failurePolicy": "Fail"}
    return {"apiVersion": GROUP, "kind": f"{kind}AdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def binding(name, kind="Validating", **more):
    spec = {"policyName": name, **({"validationActions": ["Deny"]} if kind == "Validating" else {}), **more}
    return {
        "apiVersion": GROUP,
        "kind": f"{kind}AdmissionPolicyBinding",
        "metadata": {"name": f"{name}-b"},
        "spec": spec,
    }


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def told(*objects, of=()):
    """What is told of the manifests in the cluster of these objects, without how the note begins."""
    notes = unasked_about(Snapshot([document(each) for each in objects]), [document(each) for each in of])
    return [each.removeprefix(BEGINNING) for each in notes]


WEB = workload("web", 2)


def test_those_are_named_whose_rules_have_what_is_created():
    all_of_apps = {**PODS, "apiGroups": ["apps"], "resources": ["*"], "operations": ["*"]}
    found = told(
        configuration("sidecars", PODS), configuration("limits", PODS, all_of_apps, kind="Validating"),
        configuration("nodes", {**PODS, "resources": ["nodes", "jobs", "pods/binding"]}),
        configuration("updates", {**PODS, "operations": ["UPDATE", "DELETE"]}),
        configuration("cluster", {**PODS, "resources": ["*/*"], "scope": "Cluster"}), of=[WEB],
    )  # fmt: skip
    sidecars = "MutatingWebhookConfiguration sidecars may change pods"
    limits = "ValidatingWebhookConfiguration limits may refuse deployments, replicasets and pods"
    assert found == [f"{sidecars} and {limits}"]


def test_nothing_is_told_where_nobody_is_asked():
    assert told(WEB, of=[WEB]) == []
    assert told(configuration("sidecars", PODS)) == []
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert told(configuration("all", {**PODS, "apiGroups": ["*"], "resources": ["*"]}), of=[config_map]) == []


@pytest.mark.parametrize(
    ("selectors", "is_asked"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}]}}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"objectSelector": None, "namespaceSelector": {}}, True),
    ],
)  # fmt: skip
def test_selectors_of_namespaces_and_objects_are_gone_by(selectors, is_asked):
    space = namespace("default", team="a")
    assert bool(told(space, configuration("hook", PODS, **selectors), of=[WEB])) is is_asked
    assert bool(told(space, policy("p", PODS, **selectors), binding("p"), of=[WEB])) is is_asked


def test_of_a_namespace_that_is_not_known_it_may_be():
    selector = {"matchLabels": {"istio-injection": "enabled"}}
    assert told(configuration("istio", PODS, namespaceSelector=selector), of=[WEB])


def test_a_policy_does_something_where_it_is_bound():
    assert told(policy("p", PODS), of=[WEB]) == []
    assert told(policy("p", PODS), binding("p", validationActions=["Audit", "Warn"]), of=[WEB]) == []
    assert told(policy("p", PODS), binding("other"), of=[WEB]) == []
    elsewhere = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
    assert told(namespace("default"), policy("p", PODS), binding("p", matchResources=elsewhere), of=[WEB]) == []
    assert told(policy("p", PODS, excludeResourceRules=[PODS]), binding("p"), of=[WEB]) == []
    assert told(policy("p", PODS), binding("p"), of=[WEB]) == ["ValidatingAdmissionPolicy p may refuse pods"]
    mutating = policy("m", PODS, kind="Mutating"), binding("m", kind="Mutating")
    assert told(*mutating, of=[WEB]) == ["MutatingAdmissionPolicy m may change pods"]


def test_of_many_a_few_are_named():
    (found,) = told(*(configuration(f"h{number}", PODS) for number in range(8)), of=[WEB])
    assert found.endswith("MutatingWebhookConfiguration h4 may change pods and 3 more")


def test_what_cannot_be_read_is_named():
    broken = configuration("hook", PODS, namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]})
    with pytest.raises(UnreadableObject, match="MutatingWebhookConfiguration hook"):
        told(broken, of=[WEB])


def test_a_snapshot_keeps_what_is_needed():
    objects = [configuration("hook", PODS), policy("p", PODS), binding("p"), namespace("default")]
    taken = taken_from_files(Snapshot([document(each) for each in objects]))
    assert "clientConfig" not in str([each.manifest for each in taken.documents])
    assert unasked_about(taken, [document(WEB)]) == (
        f"{BEGINNING}MutatingWebhookConfiguration hook may change pods and ValidatingAdmissionPolicy p may refuse pods",
    )


def test_it_is_said_where_a_snapshot_has_them_not():
    listed = dict.fromkeys(("Pod", "Node", *DYNAMIC), "1")

    def note(**header):
        return unasked_about(Snapshot([], Header(**header)), [document(WEB)])

    assert note(resource_versions=listed) == note(missing=(Missing(DYNAMIC[0], NOT_SERVED),)) == ()
    assert note(resource_versions={"Pod": "1"}) == (NOT_KNOWN,)
    may_not = Missing(DYNAMIC[0], MAY_NOT)
    assert note(resource_versions={"Pod": "1"}, missing=(may_not,)) == (NOT_KNOWN,)


GROUPS = {"groups": [{"name": "g", "like": "n0", "max": 3}]}
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("whatif",),
        ("capacity",),
        ("autoscale", "--groups", GROUPS),
        ("wait",),
        ("rebalance", "--goal", "free-shape"),
        ("compare", "default", "default", "--seeds", "1"),
        ("tune", "--objective", "nodesUsed", "--budget", "4", "--seeds", "1"),
        ("explain", "--what-would-help"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_every_question_about_manifests_says_so(words, output, tmp_path):
    found = asked(tmp_path, *words, *(("-o", "json") if output == "json" else ()))
    assert found.exit_code in (0, 1), found.output
    note = f"{BEGINNING}MutatingWebhookConfiguration sidecars may change pods"
    if output == "json":
        assert note in json.loads(found.stdout)["notes"]
    else:
        assert " ".join(found.stdout.split()).count(note[1:]) == 1


def test_recorded_decisions_say_so_beside_them(tmp_path):
    assert f"{BEGINNING}MutatingWebhookConfiguration sidecars may change pods" in asked(tmp_path, "decide").stderr


def asked(tmp_path, *words):
    cluster = [{"apiVersion": "v1", **node("n0")}, {"apiVersion": "v1", **node("n1")}, configuration("sidecars", PODS)]
    files = {"cluster": {"apiVersion": "v1", "kind": "List", "items": cluster}, "pod": POD, "groups": GROUPS}
    for name, content in files.items():
        (tmp_path / name).with_suffix(".json").write_text(json.dumps(content))
    args = [str(tmp_path / "groups.json") if word is GROUPS else word for word in words]
    given = ("--cluster", str(tmp_path / "cluster.json"), "-f", str(tmp_path / "pod.json"))
    return CliRunner().invoke(main, [*args, *given])
