"""Whether a manifest fits: the answer is what the core's own next cycle decides, and asking changes nothing."""

import random

import msgspec
import pytest

import berth
from berth.core.builders import make_node, make_pod
from berth.core.questions import choose
from berth.decisions.fit import MAX_REPLICAS, fit
from berth.decisions.fit_question import FitManifestError, read_question
from berth.framework.effects import Bind, Request
from berth.testing.invariants import check
from packages.scheduler.tests.support import boom, cluster, node, plugin, pod


def a_pod(cpu="1", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"kind": "Pod", "metadata": {"name": "asked"}, "spec": {"containers": [container], **spec}}


def a_deployment(replicas, cpu="1", labels=None, **spec):
    template = {"metadata": {"labels": labels or {"app": "web"}}, "spec": a_pod(cpu, **spec)["spec"]}
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas, "template": template}}


def random_cluster(rng):
    """Nodes of some sizes, zones and taints, with pods on them."""
    found = cluster(seed=rng.randrange(1000))
    for number in range(rng.randint(1, 7)):
        made = make_node(f"n{number}").capacity(cpu=rng.choice("248"), memory="16Gi", pods="8")
        made = made.label("zone", rng.choice("ab")).label("disk", rng.choice(["ssd", "hdd"]))
        if rng.random() < 0.2:
            made = made.taint("dedicated", "db", "NoSchedule")
        found.put(made)
    for number in range(rng.randint(0, 8)):
        found.put(make_pod(f"there-{number}").label("app", rng.choice(["web", "db"])).request(cpu="1"))
    return found.run()


def random_spec(rng):
    spec = {}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd"])}
    if rng.random() < 0.4:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    labels = {"matchLabels": {"app": "web"}}
    if rng.random() < 0.3:
        term = {"topologyKey": rng.choice(["zone", "kubernetes.io/hostname"]), "labelSelector": labels}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if rng.random() < 0.3:
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
        spec["topologySpreadConstraints"] = [spread]
    return spec


def scheduled(found, question, number=None):
    """The pod of a question, placed by the core's own cycles: its node, and the words of its condition."""
    asked = question.pod
    name = "asked" if number is None else f"asked-{number}"
    metadata = msgspec.structs.replace(asked.metadata, name=name, uid=name)
    built = msgspec.structs.replace(asked, metadata=metadata)
    found.put(built)
    found.run()
    messages = [patch.message for patch in found.patches(name) if patch.message]
    return found.nodes_of()[name], messages[-1] if messages else ""


@pytest.mark.parametrize("seed", range(60))
def test_a_pod_fits_where_the_next_cycle_places_it_and_nowhere_else(seed):
    rng = random.Random(seed)
    found = random_cluster(rng)
    document = a_pod(rng.choice(["500m", "1", "3", "5"]), **random_spec(rng))
    document["metadata"]["labels"] = {"app": "web"}
    question = read_question(document)
    told = fit(found.core, question, all_nodes=True).decision
    node_name, message = scheduled(found, question)
    if node_name:
        best = [each.node for each in told.best if each.total == told.best[0].total]
        assert node_name in best and told.node in best
        assert len(told.best) + sum(group.count for group in told.rejected) == told.node_count
    else:
        assert (told.node, told.best) == (None, ())
        assert message.startswith(told.message) and told.message


@pytest.mark.parametrize("seed", range(30))
def test_as_many_replicas_fit_as_a_core_places_that_draws_no_lots(seed):
    rng = random.Random(seed)
    found = random_cluster(rng)
    question = read_question(a_deployment(rng.randint(0, 12), rng.choice(["1", "2"]), **random_spec(rng)))
    told = fit(found.core, question)
    check(found.core)
    found.core.search.break_tie = lambda rows: int(rows[0])
    placed = [scheduled(found, question, number) for number in range(question.replicas)]
    nodes = [node_name for node_name, _ in placed if node_name]
    assert told.replicas.placed == len(nodes) and told.replicas.is_complete
    assert told.replicas.nodes == {name: nodes.count(name) for name in nodes}
    assert told.fits == (len(nodes) == question.replicas)


@pytest.mark.parametrize("seed", range(10))
def test_asking_changes_no_decision(seed):
    """Two clusters go the same way, and one is asked all the while."""
    quiet, asked = random_cluster(random.Random(seed)), random_cluster(random.Random(seed))
    for number in range(6):
        fit(asked.core, read_question(a_deployment(5)))
        fit(asked.core, read_question(a_pod("30")))
        check(asked.core)
        for each in (quiet, asked):
            each.put(pod(f"later-{number}", "700m"))
            each.run()
    assert quiet.nodes_of() == asked.nodes_of()
    bindings = [[each.effect for each in one.effects if isinstance(each, Request)] for one in (quiet, asked)]
    assert [type(each) for each in bindings[0]] == [type(each) for each in bindings[1]]
    assert any(isinstance(each, Bind) for each in bindings[0])


def test_what_is_lacking_is_told_in_numbers():
    told = fit(cluster(node("n1"), node("n2", "2")).run().core, read_question(a_pod("3")))
    assert not told.fits and told.decision.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert [(each.resource, each.needs, each.most_free) for each in told.decision.shortfalls] == [("cpu", "3", "2")]


def test_a_plugins_bug_is_told_and_nothing_is_left_behind():
    found = cluster(node("n1"), node("n2"), plugins=[plugin("Mine", score=boom)]).run()
    told = fit(found.core, read_question(a_deployment(2, "100m")))
    assert not told.fits and told.decision.outcome == "error" and "boom" in told.decision.message
    check(found.core)


def test_replicas_are_not_counted_where_a_plugin_reserves_something():
    found = cluster(node("n1"), plugins=[plugin("Mine", reserve=boom, unreserve=boom)]).run()
    told = fit(found.core, read_question(a_deployment(2, "100m")))
    assert told.replicas is None and told.fits
    assert told.notes == ("asked was about one pod, and not about 2: Mine would reserve something for each",)


def test_counting_replicas_ends_when_time_is_up():
    found = cluster(node("n1", "64")).run()
    ticks = iter(range(100))
    told = fit(found.core, read_question(a_deployment(30, "100m")), replicas_s=5, clock=lambda: next(ticks))
    assert (told.replicas.placed, told.replicas.is_complete, told.fits) == (5, False, False)
    assert len(found.core.cache.assumed) == 0


def test_no_more_replicas_are_tried_than_the_bound():
    node_ = make_node("n1").capacity(cpu="64", memory="64Gi", pods=str(2 * MAX_REPLICAS))
    told = fit(cluster(node_).run().core, read_question(a_deployment(MAX_REPLICAS + 1, "1m")), replicas_s=1e9)
    assert (told.replicas.placed, told.replicas.is_complete) == (MAX_REPLICAS, False)


def test_a_pod_that_runs_is_asked_about_as_one_more():
    found = cluster(node("n1", "2"), pod("asked", "1500m").node("n1")).run()
    assert not fit(
        found.core, read_question({**a_pod("1500m"), "spec": {**a_pod("1500m")["spec"], "nodeName": "n1"}})
    ).fits
    assert fit(found.core, read_question(a_pod("500m"))).decision.node == "n1"


def test_limits_count_as_requests_and_yaml_reads_as_json_does():
    text = b"kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: c, resources: {limits: {cpu: 7}}}\n"
    core = cluster(node("n1", "2")).run().core
    assert fit(core, read_question(text)).decision.shortfalls[0].needs == "7"


@pytest.mark.parametrize(
    ("manifest", "field", "words"),
    [
        (b"", "", "one object is expected"),
        (b"{", "", "JSON"),
        (b"a: [", "", "YAML"),
        (b"[]", "", "an object with kind"),
        (b"\xff\xfe\x00", "", "YAML"),
        (b"a: &a [1, *a]", "", "alias"),
        (b"kind: Pod\n---\nkind: Pod\n", "", "one object"),
        ({"kind": "Service"}, "kind", "'Service' makes no pods"),
        ({}, "kind", "is missing"),
        ({"kind": "Pod"}, "spec", "is missing"),
        ({"kind": "Pod", "metadata": [], "spec": {}}, "metadata", "an object"),
        ({"kind": "Pod", "spec": {}}, "spec.containers", "at least one"),
        ({"kind": "Pod", "metadata": {"name": 7}, "spec": {}}, "metadata.name", "a text"),
        ({"kind": "Deployment", "spec": {}}, "spec.template", "is missing"),
        ({"kind": "CronJob", "spec": {"jobTemplate": 1}}, "spec.jobTemplate", "an object"),
        (a_pod("lots"), "spec.containers[0].resources.requests[cpu]", "'lots' is not a quantity"),
        (a_deployment(-1), "spec.replicas", "not negative"),
        (a_deployment(1, nodeSelector=3), "spec.template.spec.nodeSelector", "Expected `object`"),
        (a_deployment(1, toleratons=[]), "spec.template.spec.toleratons", "unknown field; did you mean tolerations?"),
        (a_pod(tolerations=[{"operator": "Exist"}]), "spec.tolerations[0].operator", "did you mean Exists?"),
        (
            b'{"kind": "Pod", "spec": {"containers": [{}], "hostNetwork": true, "hostNetwork": false}}',
            "spec.hostNetwork",
            "is given twice",
        ),
        (
            b"kind: Pod\nspec: {containers: [{}], hostNetwork: true, hostNetwork: false}",
            "",
            "hostNetwork is given twice",
        ),
        (a_pod(schedulerName="other"), "spec.schedulerName", "'other' is another scheduler; asked can be default-"),
    ],
)
def test_what_cannot_be_asked_about_is_told_with_its_field(manifest, field, words):
    with pytest.raises(FitManifestError) as told:
        fit(cluster(node("n1")).run().core, read_question(manifest))
    assert told.value.field == field and words in str(told.value)


def test_the_pods_of_a_job_are_those_that_run_at_once():
    job = {"kind": "Job", "spec": {"parallelism": 5, "completions": 3, "template": {"spec": a_pod()["spec"]}}}
    assert read_question(job).replicas == 3
    assert read_question({"kind": "CronJob", "spec": {"jobTemplate": {"spec": job["spec"]}}}).replicas == 3


def test_the_library_says_whether_a_manifest_fits_and_then_places_it_there():
    scheduler = berth.Scheduler()
    scheduler.add({"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "2", "pods": "9"}}})
    told = scheduler.fit(a_deployment(3))
    assert (told.fits, told.replicas.placed, told.decision.node) == (False, 2, "n1")
    assert scheduler.placements == {}
    assert scheduler.schedule(a_pod()).node == "n1"


def test_the_choice_of_the_core_itself_draws_lots_as_before():
    core = cluster(node("n1"), node("n2"), node("n3")).run().core
    rows = {choose(core, pod("a").build()).outcome.chosen_row for _ in range(50)}
    assert len(rows) == 3
