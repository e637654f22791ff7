"""The questions on one small cluster, whose answers follow from its figures.

Twelve GPUs each for team-a and team-b, in one cohort, on three nodes of eight: team-b runs 16 and borrows 4, team-a
runs 2, so that 6 are free. Of team-a, `first` asks for 10, `second` for 9 and `tiny` for 1.
"""

import pytest

from berth.api.codec import ObjectError
from berth_kueue.jobs import JobManifestError
from berth_kueue.questions import check, explain, top, wait, whatif
from berth_kueue.queued_cluster import NoQueuesError
from berth_workbench.simulation.changes import Drain, parse_flag
from berth_workbench.simulation.watch import UNWATCHED
from packages.kueue.tests.clusters import (
    API,
    cluster_queue,
    documents,
    flavor,
    job,
    local_queue,
    namespace,
    node,
    pod,
    situation,
    two_teams,
    workload,
)

RECLAIMS = {"preemption": {"reclaimWithinCohort": "Any"}}


def asked(question, *objects, steps=(), **request):
    return question.answer(situation(*objects, steps=steps), question.QUESTION.request(**request), UNWATCHED)


def checked(*jobs, objects=None, steps=()):
    return asked(check, *(objects or two_teams()), steps=steps, documents=documents(*jobs))


def said(question, found):
    return " ".join(getattr(each, "text", "") for each in question.QUESTION.sections(found))


def test_a_job_that_fits_is_admitted_and_its_pods_go_where_there_is_room():
    found = checked(job("team-a", "new", 2, 2))
    (one,) = found.workloads
    assert found.is_yes and one.is_admitted and one.pods.nodes == {"gpu-2": 2}
    assert one.pod_sets[0].flavors == {"cpu": "h100", "nvidia.com/gpu": "h100"}
    assert [each.workload for each in found.others] == ["team-a/tiny"]


def test_a_job_that_lacks_quota_waits_and_kueue_says_why():
    found = checked(job("team-a", "new", 2, 3))
    (one,) = found.workloads
    assert not one.is_admitted and one.pods is None and not found.is_yes
    assert one.message == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for nvidia.com/gpu in flavor h100, 1 more needed"
    )
    assert said(check, found).startswith("No: team-a/job-new waits.")


def test_quota_without_a_node_is_no_place():
    """Six GPUs are free by quota, and by nodes once nobody else is there; but no node has nine."""
    objects = [each for each in two_teams() if each["metadata"]["name"] not in ("eval", "eval-0", "eval-1")]
    found = checked(job("team-b", "wide", 1, 9), objects=objects)
    (one,) = found.workloads
    assert one.is_admitted and one.pods.without[0].count == 1 and not found.is_yes
    assert "Insufficient nvidia.com/gpu" in one.pods.without[0].message
    assert "but 1 of 1 pod has no node" in said(check, found)


def test_who_is_preempted_makes_room_on_the_nodes():
    objects = [each for each in two_teams(**RECLAIMS) if each["metadata"]["name"] not in ("first", "second", "tiny")]
    found = checked(job("team-a", "new", 2, 5), objects=objects)
    (one,) = found.workloads
    assert [each.workload for each in one.preempts] == ["team-b/eval"] and found.is_yes
    assert sum(one.pods.nodes.values()) == 2
    assert "which preempts team-b/eval, and every pod has a node" in said(check, found)


def test_pods_go_to_the_domain_of_a_topology():
    """Each rack has two nodes with eight GPUs; twelve pods with one each fit into no rack but the one that is empty."""
    topology = {
        "apiVersion": API,
        "kind": "Topology",
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    nodes = [node(f"gpu-{number}") for number in range(4)]
    for number, each in enumerate(nodes):
        each["metadata"]["labels"]["rack"] = f"rack-{number // 2}"
    objects = [
        namespace("team-a"),
        topology,
        *nodes,
        flavor("h100", nodeLabels={"pool": "h100"}, topologyName="racks"),
        cluster_queue("team-a", {"h100": 32}),
        local_queue("team-a", "team-a"),
        pod("team-a", "other", 0, 8, "gpu-0"),
    ]
    new = job("team-a", "new", 12, 1)
    new["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    found = checked(new, objects=objects)
    (one,) = found.workloads
    assert found.is_yes and one.pod_sets[0].domains == ((("gpu-2",), 8), (("gpu-3",), 4))
    assert one.pods.nodes == {"gpu-2": 8, "gpu-3": 4}


def test_a_job_without_a_queue_goes_to_the_default_one():
    new = job("team-a", "new", 1, 1)
    del new["metadata"]["labels"]
    with pytest.raises(JobManifestError, match=r"Job team-a/new: the label kueue.x-k8s.io/queue-name is missing"):
        checked(new)
    assert checked(new, objects=[*two_teams(), local_queue("team-a", "team-a", "default")]).is_yes
    new["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "none"}
    assert "LocalQueue none doesn't exist" in said(check, checked(new))


def test_changes_come_first():
    """Without gpu-2 there is no node for the pods that quota lets in."""
    found = checked(job("team-a", "new", 2, 2), steps=(parse_flag("removeNodes", "gpu-2"),))
    (one,) = found.workloads
    assert one.is_admitted and one.pods.placed == 0


def test_a_file_without_jobs_and_a_cluster_without_queues_are_told():
    with pytest.raises(JobManifestError, match="names no job"):
        checked({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    with pytest.raises(NoQueuesError, match="no ClusterQueues"):
        asked(check, node("gpu-0"), documents=documents(job("team-a", "new", 1, 1)))
    older = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {}}
    with pytest.raises(NoQueuesError, match=r"its objects are kueue.x-k8s.io/v1beta1, and v1beta2 is read"):
        asked(top, older)


@pytest.mark.parametrize(
    ("kind", "broken", "said"),
    [
        ("ClusterQueue", {"spec": None}, "ClusterQueue team-a: spec is missing"),
        ("ClusterQueue", {"spec": {"resourceGroups": [{"flavors": [{}]}]}}, "ClusterQueue team-a"),
        ("Workload", {"spec": {"queueName": "main"}}, "Workload team-b/eval: spec.podSets is missing"),
        ("Workload", {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}, "these queues"),
        ("ResourceFlavor", {"spec": {"nodeLabels": 3}}, "ResourceFlavor h100"),
    ],
)
def test_an_object_that_cannot_be_read_is_named(kind, broken, said):
    objects = two_teams()
    at = next(at for at, each in enumerate(objects) if each["kind"] == kind)
    objects[at] = objects[at] | broken
    with pytest.raises(ObjectError, match=said):
        asked(explain, *objects)


def test_why_it_waits_in_figures():
    found = asked(explain, *two_teams(), workloads=("team-a/first",))
    (one,) = found.workloads
    (lack,) = one.shortages
    assert (lack.lacks, lack.of, lack.nominal, lack.used, lack.borrowers) == ("4", "10", "12", "2", {"team-b": "4"})
    assert (one.position, one.waiting) == (1, 2)
    assert [each.change for each in one.remedies] == [
        "reclaimWithinCohort: Any in ClusterQueue team-a",
        "--quota team-a.h100.nvidia.com/gpu=+4",
        "the end of team-b/eval",
    ]


def test_preempting_would_do_but_it_is_never_done():
    """Within its own quota, team-a may reclaim what it has lent."""
    quiet = [each for each in two_teams() if each["metadata"]["name"] not in ("second", "tiny")]
    (one,) = asked(explain, *quiet, workloads=("team-a/first",)).workloads
    (reclaim,) = [each for each in one.remedies if each.change.startswith("reclaimWithinCohort")]
    assert [each.workload for each in reclaim.preempts] == ["team-b/eval"]


def test_those_behind_need_quota_for_those_before_them():
    (one,) = asked(explain, *two_teams(), workloads=("team-a/second",)).workloads
    assert (one.position, one.waiting, one.ahead) == (2, 2, ("team-a/first",))
    assert "--quota team-a.h100.nvidia.com/gpu=+13" in [each.change for each in one.remedies]


def test_each_remedy_helps_where_it_is_typed():
    """What `explain` tells as --quota is typed at `whatif`."""
    (one,) = asked(explain, *two_teams(), workloads=("team-a/second",)).workloads
    for remedy in one.remedies:
        if remedy.change.startswith("--quota "):
            quota = tuple(remedy.change.removeprefix("--quota ").split(", "))
            assert "team-a/second" in asked(whatif, *two_teams(), quota=quota).answer.admitted


def test_all_that_wait_are_listed_and_a_jobs_name_will_do():
    found = asked(explain, *two_teams())
    assert {each.workload: each.state for each in found.workloads} == {
        "team-a/first": "Waiting",
        "team-a/second": "Waiting",
        "team-a/tiny": "Next",
    }
    (one,) = asked(explain, *two_teams(), workloads=("team-b/eval",)).workloads
    assert one.state == "Admitted"
    with pytest.raises(explain.UnknownWorkloadError, match="did you mean team-a/first"):
        asked(explain, *two_teams(), workloads=("team-a/fist",))


def test_more_quota_admits_more_and_places_their_pods():
    found = asked(whatif, *two_teams(), quota=("team-a.h100.nvidia.com/gpu=+4",)).answer
    assert found.admitted == ("team-a/first",) and found.no_longer == ("team-a/tiny",)
    (pods,) = found.pods
    assert pods.workload == "team-a/first" and pods.nodes == {"gpu-2": 1} and pods.without[0].count == 1


def test_less_quota_and_an_absolute_one():
    found = asked(whatif, *two_teams(), quota=("team-b.h100.nvidia.com/gpu=6",)).answer
    assert found.no_longer == ("team-a/tiny",)
    with pytest.raises(whatif.QuotaChangeError, match=r"did you mean team-a\.h100\.nvidia\.com/gpu"):
        asked(whatif, *two_teams(), quota=("team-a.h100.nvidia.com/gup=+1",))
    with pytest.raises(whatif.QuotaChangeError, match="is not a quantity"):
        asked(whatif, *two_teams(), quota=("team-a.h100.nvidia.com/gpu=+many",))


def test_changes_of_the_cluster_are_answered_as_well():
    found = asked(whatif, *two_teams(), steps=(Drain("gpu-0"),))
    assert [each.pod for each in found.trial.result.pods if not each.node] == ["team-b/eval-0"]
    assert "Of the cluster's own pods: No" in said(whatif, found)


def test_who_borrows_from_whom():
    found = asked(top, *two_teams())
    lines = {(each.cluster_queue, each.resource): each for each in found.lines}
    assert lines["team-b", "nvidia.com/gpu"].borrowed == "4"
    assert lines["team-a", "nvidia.com/gpu"].available == "6"
    (cohort,) = found.cohorts
    assert (cohort.borrowers, cohort.lenders) == ({"team-b": "4"}, {"team-a": "10"})
    assert [(each.pending, each.admitted) for each in found.queues] == [(3, 1), (0, 1)]


def test_when_those_run_that_wait():
    """eval ends after an hour; then first has its GPUs, and second after it."""
    found = asked(wait, *two_teams(), durations={"team-b/eval": 3600.0, "*": 7200.0})
    starts = {each.workload: each.starts_s for each in found.workloads}
    since = {"team-a/tiny": 0, "team-a/first": 3600 - 7.5 * 60, "team-a/second": 3600 - 7.5 * 60}
    assert starts == pytest.approx(since, abs=1)
    without = asked(wait, *two_teams())
    assert without.ends_known == 0 and without.without_end == 2
    assert [each.workload for each in without.workloads if each.starts_s is None] == ["team-a/first", "team-a/second"]


def cohorts_in_a_cycle():
    """team-a's cohort is below another that is below it."""
    cohorts = [
        {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": {"parentName": parent}}
        for name, parent in (("all", "above"), ("above", "all"))
    ]
    return [*two_teams(), *cohorts]


def test_a_cycle_of_cohorts_keeps_nobody_from_an_answer():
    """Nothing is admitted there, and whatever is asked comes to an end."""
    (one,) = asked(explain, *cohorts_in_a_cycle(), workloads=("team-a/first",)).workloads
    assert (one.state, one.shortages, one.remedies) == ("Waiting", (), ())
    assert {each.state for each in asked(explain, *cohorts_in_a_cycle()).workloads} == {"Waiting"}
    assert not checked(job("team-a", "new", 1, 1), objects=cohorts_in_a_cycle()).is_yes
    changed = asked(whatif, *cohorts_in_a_cycle(), quota=("team-a.h100.nvidia.com/gpu=+40",)).answer
    assert changed.admitted == ()
    assert [each.starts_s for each in asked(wait, *cohorts_in_a_cycle()).workloads] == [None] * 3
    assert {each.problem for each in asked(top, *cohorts_in_a_cycle()).queues} == {"is in a cycle of cohorts"}


def test_where_all_are_listed_the_head_of_the_queue_is_looked_at():
    """A line of 130 that all lack GPUs: the last would name 129 others, and so on for each."""
    line = [workload("team-a", f"long-{number:03d}", 1, 8, 10) for number in range(130)]
    objects = [each for each in two_teams() if each["metadata"]["name"] not in ("first", "second", "tiny")] + line
    found = {each.workload: each for each in asked(explain, *objects).workloads}
    assert [found[f"team-a/long-{at:03d}"].position for at in (0, 50, 129)] == [1, 51, 130]
    assert [len(found[f"team-a/long-{at:03d}"].ahead) for at in (0, 50, 129)] == [0, 50, 100]
    (last,) = asked(explain, *objects, workloads=("team-a/long-129",)).workloads
    assert len(last.ahead) == 129
