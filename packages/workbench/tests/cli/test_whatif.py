"""`berth whatif` and `berth capacity` as people and programs use them: flags, outputs, exit codes, what is refused."""

import json

import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth_workbench.cli.change_flags import CHANGE_FLAGS

ZONE = "topology.kubernetes.io/zone"


def node(name, zone="a", cpu="4"):
    made = make_node(name).capacity(cpu=cpu, memory="8Gi", pods="110").labels({ZONE: zone, "pool": "std"})
    return made.document


def pod(name, on="", owner="rs", cpu="1", **more):
    made = make_pod(name).label("app", "web").request(cpu=cpu)
    if owner:
        made.owned_by("ReplicaSet", owner)
    for field, value in more.items():
        made.set_spec(**{field: value})
    return (made.node(on) if on else made).document


def web(replicas=3, cpu="1", **spec):
    template = {
        "metadata": {"labels": {"app": "new"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "new"}}, "template": template},
    }


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "keep", "namespace": "default"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
}


@pytest.fixture
def run(tmp_path):
    """Runs a command on a cluster and manifests, given as objects."""

    def go(command, *args, cluster=(), manifests=(), code=0):
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(cluster)}))
        given = []
        if manifests:
            (tmp_path / "new.yaml").write_text(yaml.safe_dump_all(list(manifests)))
            given = ["-f", str(tmp_path / "new.yaml")]
        result = CliRunner().invoke(main, [command, "--cluster", str(file), *given, *args])
        assert result.exit_code == code, result.output
        return result

    return go


def read(result):
    return json.loads(result.stdout)


# -- whatif ----------------------------------------------------------------------------------------------------------


def test_where_new_pods_go_and_why_one_does_not(run):
    found = read(run("whatif", "-o", "json", cluster=[node("n0"), pod("old", "n0", cpu="2")], manifests=[web(3)]))
    names = [each["pod"] for each in found["pods"]]
    assert all(name.startswith("default/web-") for name in names)
    assert [(each["node"], bool(each["message"])) for each in found["pods"]] == [
        ("n0", False),
        ("n0", False),
        (None, True),
    ]
    assert "1 Insufficient cpu" in found["pods"][2]["message"]
    assert (found["evicted"], found["broken"]) == ([], [])
    assert found["before"]["pods"] == 1
    assert found["after"]["pods"] == 3
    assert found["after"]["pending"] == 1


def test_a_drain_tells_what_moved_what_was_lost_and_who_sent_it_away(run):
    cluster = [node("n0"), node("n1"), pod("web-0", "n0"), pod("bare", "n0", owner="")]
    found = read(run("whatif", "--drain", "n0", "-o", "json", cluster=cluster))
    outcome = {"pod": "default/web-0", "node": "n1", "message": "", "before": "n0"}
    assert found["pods"] == [{**outcome, "isNew": False, "isRefused": False}]
    assert [(each["pod"], each["by"]) for each in found["evicted"]] == [
        ("default/bare", "drain of n0"),
        ("default/web-0", "drain of n0"),
    ]
    assert [(each["kind"], each["name"], each["reason"]) for each in found["broken"]] == [
        ("Pod", "default/bare", "PodLost")
    ]


def test_a_budget_that_blocks_a_drain_is_named(run):
    cluster = [node("n0"), node("n1", cpu="500m"), pod("web-0", "n0"), pod("web-1", "n0"), BUDGET]
    found = read(run("whatif", "--drain", "n0", "-o", "json", cluster=cluster))
    assert {(each["reason"], each["name"]) for each in found["broken"]} == {("DrainBlocked", "default/keep")}
    assert found["pods"] == []


def test_a_budget_that_a_lost_zone_leaves_short_is_told_unless_it_was_short_before(run):
    cluster = [node("a0"), node("b0", "b", cpu="1"), pod("web-0", "a0"), pod("web-1", "b0"), BUDGET]
    found = read(run("whatif", "--lose-zone", "a", "-o", "json", cluster=cluster))
    assert [(each["reason"], each["name"]) for each in found["broken"]] == [
        ("NoLongerRuns", "default/web-0"),
        ("BudgetViolated", "default/keep"),
    ]
    assert found["broken"][1]["message"] == "needs 2 healthy pods and has 1"
    short = [node("a0"), node("b0", "b", cpu="1"), pod("web-1", "b0"), BUDGET]
    assert read(run("whatif", "--lose-zone", "a", "-o", "json", cluster=short))["broken"] == []


def test_changes_count_in_the_order_in_which_they_are_typed(run):
    """A node drained before another is added leaves its pod pending at first; at the end both have room."""
    cluster = [node("n0"), pod("web-0", "n0", cpu="4")]
    steps = read(run("whatif", "--drain", "n0", "--add-nodes", "1=n0", "-o", "json", cluster=cluster))["steps"]
    assert [(each["step"], each["pending"]) for each in steps] == [("drain n0", 1), ("add 1 like n0", 0)]
    steps = read(run("whatif", "--add-nodes", "1=n0", "--drain", "n0", "-o", "json", cluster=cluster))["steps"]
    assert [(each["step"], each["pending"]) for each in steps] == [("add 1 like n0", 0), ("drain n0", 0)]


def test_one_flag_may_come_several_times_between_others(run):
    cluster = [node("n0"), node("n1"), node("n2"), pod("web-0", "n0")]
    args = ("--cordon", "n1", "--drain", "n0", "--uncordon", "n1", "--drain", "n2", "--cordon", "n1")
    steps = read(run("whatif", *args, "-o", "json", cluster=cluster))["steps"]
    assert [each["step"] for each in steps] == ["cordon n1", "drain n0", "uncordon n1", "drain n2", "cordon n1"]


def test_a_lost_zone_a_scaled_workload_and_preemption(run):
    cluster = [node("a0"), node("b0", "b", cpu="2"), pod("web-0", "a0"), pod("web-1", "b0")]
    found = read(run("whatif", "--lose-zone", "a", "--scale", "rs/rs=3", "-o", "json", cluster=cluster))
    assert [(each["pod"], each["node"]) for each in found["pods"]] == [("default/rs-0", None), ("default/web-0", "b0")]
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 100}
    found = read(
        run(
            "whatif",
            "-o",
            "json",
            cluster=[node("n0"), pod("web-0", "n0", cpu="3")],
            manifests=[gold, web(1, cpu="3", priorityClassName="gold")],
        )
    )
    (left,) = found["evicted"]
    assert (left["pod"], left["isPreempted"]) == ("default/web-0", True)
    assert left["by"].startswith("default/web-")
    assert [(each["reason"], each["name"]) for each in found["broken"]] == [("NoLongerRuns", "default/web-0")]


def test_a_workload_of_the_manifests_can_be_scaled(run):
    found = read(run("whatif", "--scale", "deployment/web=2", "-o", "json", cluster=[node("n0")], manifests=[web(9)]))
    assert len(found["pods"]) == 2


def test_a_scenario_file_stands_where_it_is_typed(run, tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text("apiVersion: berth.dev/v1\nkind: Scenario\nsteps:\n- cordon: n0\n- uncordon: n0\n")
    args = ("--cordon", "n0", "--scenario", str(scenario), "--drain", "n0")
    steps = read(run("whatif", *args, "-o", "json", cluster=[node("n0")]))["steps"]
    assert [each["step"] for each in steps] == ["cordon n0", "cordon n0", "uncordon n0", "drain n0"]


def test_a_gang_is_placed_whole_or_not_at_all_and_a_note_says_where_nothing_looks_at_groups(run):
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 5}}},
    }
    manifests = [group, web(5, schedulingGroup={"podGroupName": "g"})]
    gates = ("--feature-gates", "GenericWorkload=true,GangScheduling=true")
    found = read(run("whatif", "-o", "json", *gates, cluster=[node("n0")], manifests=manifests))
    assert [each["node"] for each in found["pods"]] == [None] * 5
    assert found["notes"] == []
    found = read(run("whatif", "-o", "json", cluster=[node("n0")], manifests=manifests))
    assert sum(each["node"] is None for each in found["pods"]) == 1
    assert "names a pod group, but the configuration does not look at groups" in found["notes"][0]


def test_a_gang_that_still_waits_or_is_stopped_is_told_in_the_verdict(run):
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }

    def member(number, on=""):
        found = pod(f"web-{number}", on, cpu="3")
        found["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        return found

    gates = ("--feature-gates", "GenericWorkload=true,GangScheduling=true")
    cluster = [node("n0", cpu="4"), group, *map(member, range(3))]
    said = " ".join(run("whatif", "--add-nodes", "1=n0", *gates, cluster=cluster).stdout.split())
    assert "Still pending: the 3 pods of PodGroup default/g, none of which is bound before 3 have a place." in said
    assert "Still pending" not in run("whatif", "--add-nodes", "2=n0", *gates, cluster=cluster).stdout
    runs = [*(node(f"n{i}", cpu="4") for i in range(3)), group, *(member(i, f"n{i}") for i in range(3))]
    found = read(run("whatif", "--scale", "ReplicaSet/rs=2", "-o", "json", *gates, cluster=runs))
    assert [(each["reason"], each["name"]) for each in found["broken"]] == [("GangStopped", "default/g")]
    assert found["gangs"] == [
        {"name": "default/g", "needed": 3, "pods": 2, "placed": 2, "isStopped": True, "holds": {"cpu": "6"}}
    ]
    said = " ".join(run("whatif", "--drain", "n0", *gates, cluster=runs).stdout.split())
    assert "have no place" in said or "has no place" in said
    assert (
        "PodGroup default/g is stopped: 2 of the 3 pods that it needs have a node, which hold 6 cpu for nothing."
        in said
    )
    assert "GangStopped" not in run("whatif", "--scale", "ReplicaSet/rs=2", cluster=runs).output


def test_what_breaks_makes_no_difference_to_the_exit_code_unless_asked(run):
    cluster = [node("n0"), pod("bare", "n0", owner="")]
    run("whatif", "--drain", "n0", cluster=cluster)
    run("whatif", "--drain", "n0", "--fail-on-broken", cluster=cluster, code=1)
    run("whatif", "--fail-on-broken", cluster=cluster)
    run("whatif", "--fail-on-broken", cluster=cluster, manifests=[web(9)], code=1)


def test_the_table_fits_80_columns_and_says_what_the_result_says(run):
    long = "a-deployment-with-a-name-that-is-as-long-as-names-of-people-who-like-names"
    cluster = [node(f"{long}-{n}") for n in range(3)] + [pod(f"{long}-{n}", f"{long}-0") for n in range(3)]
    result = run("whatif", "--drain", f"{long}-0", cluster=[*cluster, pod("bare", f"{long}-0", owner="")])
    assert max(len(line) for line in result.stdout.splitlines() if long not in line) <= 80
    assert f"default/{long}-2\n" in result.output, "a name is longer than the terminal is wide, and stands whole"
    assert "3 pods left their nodes: 3 with another" in result.output
    assert "1 thing breaks." in result.output
    assert "PodLost" in result.output


def crowd():
    """A node with 20 pods to drain, one with room for 15 of them, and a hundred pending pods that fit nowhere."""
    moving = [pod(f"web-{number}", "n0") for number in range(20)]
    waiting = [pod(f"big-{number}", owner="big", cpu="40") for number in range(100)]
    return [node("n0", cpu="20"), node("n1", cpu="15"), *moving, *waiting]


def test_those_who_were_drained_are_told_apart_from_those_who_were_pending(run):
    lines = run("whatif", "--drain", "n0", cluster=crowd()).stdout.splitlines()
    assert lines[0] == "Assumed: the default configuration; --config names another."
    assert " ".join(" ".join(lines[1:3]).split()) == (
        "No: default/web-5, default/web-6, default/web-7 and 2 more have no place. 100 more pods had none before."
    )
    assert lines[3:6] == [
        "20 pods left their nodes: 15 with another, 5 with none.",
        "100 pods were pending: 100 still pending.",
        "5 things break.",
    ]
    at = lines.index("Pods that left their nodes")
    rows = lines[at + 2 : lines.index("", at)]
    assert len(rows) == 20
    assert all(row.split()[1] == "n0" for row in rows)
    assert [row.split()[0] for row in rows if row.endswith("no node")] == [row.split()[0] for row in rows[:5]]


def test_what_breaks_for_one_reason_is_one_row_with_a_few_names(run):
    lines = run("whatif", "--drain", "n0", cluster=crowd()).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Broken"))
    told = " ".join(" ".join(lines[at : lines.index("", at)]).split())
    assert told.count("NoLongerRuns") == 1
    assert told.count("default/web-") == 3
    assert "and 2 more" in told
    wide = run("whatif", "--drain", "n0", "-o", "wide", cluster=crowd()).stdout
    assert "and 2 more" not in wide[wide.index("Broken") :]


def test_names_are_those_of_the_pods_that_move_or_have_no_node(run):
    names = run("whatif", "--drain", "n0", "-o", "name", cluster=crowd()).stdout.split()
    assert len(names) == 120
    assert {"default/web-0", "default/big-99"} <= set(names)
    moved = run("whatif", "--drain", "n0", "-o", 'jsonpath={.pods[?(@.node=="n1")].pod}', cluster=crowd()).stdout
    assert len(moved.split()) == 15


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--drain", "node-10"), "drain node-10: no node 'node-10'; did you mean node-1?"),
        (("--lose-zone", "zone-v"), "lose zone zone-v: no node is in a zone 'zone-v'; did you mean zone-a?"),
        (("--add-nodes", "2=nod-1"), "no node 'nod-1' that others could be like; did you mean node-1?"),
        (
            ("--delete", "rs/front-ned"),
            "delete rs/front-ned: the cluster has no ReplicaSet of this name; did you mean front-end?",
        ),
        (
            ("--scale", "rs/fron-tend=3"),
            (
                "scale rs/fron-tend to 3: neither the cluster nor a manifest has a ReplicaSet default/fron-tend"
                "; did you mean front-end?"
            ),
        ),
    ],
)
def test_near_names_are_suggested(run, args, problem):
    cluster = [node("node-1", zone="zone-a"), pod("front-end-1", "node-1", owner="front-end")]
    assert run("whatif", *args, cluster=cluster, code=1).stderr.strip() == f"Error: {problem}"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--drain", "nope"), "drain nope: no node 'nope'; the cluster has 1: n0"),
        (("--lose-zone", "z"), "lose zone z: no node is in a zone 'z'; zones are a"),
        (("--add-nodes", "1=nope"), "no node 'nope' that others could be like"),
        (("--delete", "job/nope"), "delete job/nope: the cluster has no Job of this name"),
    ],
)
def test_changes_that_cannot_be_made_end_with_one_line(run, args, problem):
    result = run("whatif", *args, cluster=[node("n0")], code=1)
    assert result.stderr.strip() == f"Error: {problem}"


def test_flags_and_manifests_that_cannot_be_read_end_with_one_line(run):
    result = run("whatif", "--scale", "web", cluster=[node("n0")], code=2)
    assert result.stderr.strip().endswith("Error: --scale: 'web' is not KIND/NAME=N, as in deployment/web=5")
    broken = web()
    del broken["spec"]["template"]["spec"]["containers"]
    result = run("whatif", cluster=[node("n0")], manifests=[broken], code=1)
    assert "Deployment default/web: spec.template.spec.containers is missing or empty" in result.stderr


def test_what_the_api_server_refuses_is_not_placed(run):
    """The words are those of the admission plugins Priority and ResourceQuota."""
    found = run("whatif", cluster=[node("n0")], manifests=[web(priorityClassName="gold")]).stdout
    assert "No: the API server refuses 3 of 3 new pods: no PriorityClass with name gold was" in found
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}},
    }  # fmt: skip
    result = run("whatif", "--fail-on-broken", cluster=[node("n0"), quota], manifests=[web()], code=1)
    told = " ".join(result.stdout.split())
    why = "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"
    assert f"No: the API server refuses 2 of 3 new pods: {why}. 3 new pods: 1 placed, 2 refused." in told
    found = read(run("whatif", "-o", "json", cluster=[node("n0"), quota], manifests=[web()]))
    assert [(each["node"], each["message"], each["isRefused"]) for each in found["pods"]] == [
        ("n0", "", False), (None, why, True), (None, why, True)
    ]  # fmt: skip


def test_help_names_every_change():
    output = CliRunner().invoke(main, ["whatif", "--help"]).output
    for each in CHANGE_FLAGS:
        assert f"{each.flag} {each.metavar}" in output


# -- capacity --------------------------------------------------------------------------------------------------------


def test_capacity_as_json(run):
    cluster = [node("n0"), node("n1", cpu="2500m"), pod("web-0", "n0")]
    found = read(run("capacity", "-o", "json", cluster=cluster, manifests=[web(9)]))
    assert found["fits"] == 3 + 2
    assert found["limitedBy"] == [{"reason": "Insufficient cpu", "nodes": 2}]
    assert found["byPool"] == {
        "std": {"nodes": 2, "fits": 5, "limitedBy": [{"reason": "Insufficient cpu", "nodes": 2}]}
    }
    assert found["fragmentation"]["cpu"] == {
        "free": 5.5,
        "usable": 5.0,
        "stranded": 0.5,
        "largestHole": 3.0,
        "largestHoleOn": "n0",
    }


def test_capacity_after_changes_of_sets_and_as_a_table(run):
    new = pod("one", owner="", cpu="2")
    found = read(run("capacity", "--add-nodes", "1=n0", "-o", "json", cluster=[node("n0")], manifests=[new]))
    assert found["fits"] == 4
    found = read(run("capacity", "-o", "json", cluster=[node("n0")], manifests=[new, web(2)]))
    assert (found["fits"], found["pods"]) == (1, 3)
    output = run("capacity", cluster=[node("n0")], manifests=[new, web(2)]).output
    assert "1 more sets of 1 default/one + 2 default/web fit, 3 pods" in output
    assert max(map(len, output.splitlines())) <= 80


def test_capacity_needs_to_be_told_of_what(run):
    result = run("capacity", cluster=[node("n0")], code=2)
    assert "-f: what is to fit?" in result.stderr
    result = run("capacity", cluster=[node("n0")], manifests=[BUDGET], code=1)
    assert "-f: nothing that makes pods" in result.stderr


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_capacity_is_drawn(run, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"p.{suffix}"
    run("capacity", "--plot", str(picture), cluster=[node("n0")], manifests=[web(2)])
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"default/web: 4 more fit" in content


# -- what is refused -------------------------------------------------------------------------------------------------


def test_a_scale_of_a_workload_that_is_nowhere_is_an_error(run, tmp_path):
    said = "Error: scale deployment/nosuch to 3: neither the cluster nor a manifest has a Deployment default/nosuch\n"
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "apiVersion: berth.dev/v1\nkind: Scenario\nsteps:\n- scale: {workload: deployment/nosuch, replicas: 3}\n"
    )
    for flags in (("--scale", "deployment/nosuch=3"), ("--scenario", str(scenario))):
        assert run("whatif", *flags, cluster=[node("n0")], code=1).stderr == said
        for command in ("whatif", "capacity"):
            assert run(command, *flags, cluster=[node("n0")], manifests=[web()], code=1).stderr == said


def test_a_scale_before_the_manifest_that_it_is_about_counts(run):
    flags = ("--scale", "deployment/web=2", "-o", "json")
    found = read(run("whatif", *flags, cluster=[node("n0")], manifests=[web(3)]))
    assert len(found["pods"]) == 2
    sets = {"kind": "Pod", "metadata": {"name": "one"}, "spec": web()["spec"]["template"]["spec"]}
    found = read(run("capacity", *flags, cluster=[node("n0")], manifests=[web(3), sets]))
    assert [shape["perSet"] for shape in found["shapes"]] == [2, 1]


@pytest.mark.parametrize("command", ["whatif", "capacity"])
def test_a_scenario_that_cannot_be_read_is_one_line(run, tmp_path, command):
    missing = tmp_path / "none.yaml"
    result = run(command, "--scenario", str(missing), cluster=[node("n0")], manifests=[web()], code=1)
    assert result.stderr == f"Error: --scenario: {missing}: No such file or directory\n"


def test_a_sweep_that_cannot_be_read_is_one_line(tmp_path):
    for missing in (tmp_path / "none.yaml", tmp_path):
        result = CliRunner().invoke(main, ["sweep", str(missing)])
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: {missing}: ") and result.stderr.count("\n") == 1
        assert result.stderr.count(str(missing)) == 1


@pytest.mark.parametrize("command", ["whatif", "capacity"])
@pytest.mark.parametrize("namespace", ["a;b c", "", "Shop", "-a", "a" * 64])
def test_a_namespace_that_cannot_be_is_refused(run, command, namespace):
    result = run(command, "-n", namespace, cluster=[node("n0")], manifests=[web()], code=2)
    assert f"{namespace!r} is no name of a namespace" in result.stderr


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"maxUnavailable": "x%"}, "spec.maxUnavailable must be a whole number, not negative, or a percentage"),
        ({"minAvailable": "2"}, "spec.minAvailable must be a whole number, not negative, or a percentage"),
        ({"minAvailable": -1}, "spec.minAvailable must be a whole number, not negative, or a percentage"),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable must be a whole number, not negative, or a percentage"),
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec: minAvailable and maxUnavailable exclude each other"),
    ],
)
def test_a_budget_that_the_api_server_would_refuse_is_refused(run, tmp_path, spec, problem):
    wrong = {**BUDGET, "spec": {"selector": BUDGET["spec"]["selector"], **spec}}
    result = run("whatif", cluster=[node("n0")], manifests=[wrong], code=1)
    assert result.stderr.startswith(f"Error: {tmp_path / 'new.yaml'}")
    assert f"PodDisruptionBudget default/keep: {problem}" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("bound", [{"maxUnavailable": "100%"}, {"minAvailable": 0}, {"minAvailable": "0%"}, {}])
def test_a_budget_that_the_api_server_would_take_is_taken(run, bound):
    run("whatif", cluster=[node("n0")], manifests=[{**BUDGET, "spec": bound}])


def test_manifests_come_to_a_bounded_number_of_pods(run):
    second = {**web(1_000_000), "metadata": {"name": "again"}}
    result = run("whatif", cluster=[node("n0")], manifests=[web(1_000_000), second], code=1)
    assert "asks for 1000000 pods; with those before it that is 2000000, and more than 1000000" in result.stderr


def test_all_steps_together_make_a_bounded_number_of_pods(run, monkeypatch):
    monkeypatch.setattr("berth_workbench.simulation.site.MAX_PODS", 5)
    running = [node("n0"), pod("web-1", "n0")]
    run("whatif", "--scale", "rs/rs=3", cluster=running, manifests=[web(3)])
    for flags, by in (
        (("--scale", "rs/rs=7"), "scale rs/rs to 7: this makes 6"),
        (("--scale", "rs/rs=4"), "the manifests: this makes 6"),
    ):
        result = run("whatif", *flags, cluster=running, manifests=[web(3)], code=1)
        assert result.stderr == f"Error: {by} new pods in all; more than 5 are not tried\n"


@pytest.mark.parametrize("names", [("shop",), ("shop", "default")])
def test_a_scale_without_a_namespace_is_of_the_only_workload_of_that_name(run, names):
    made = [{**web(3), "metadata": {"name": "web", "namespace": name}} for name in names]
    found = read(run("whatif", "--scale", "deployment/web=1", "-o", "json", cluster=[node("n0")], manifests=made))
    assert sum(each["pod"].startswith(f"{names[-1]}/") for each in found["pods"]) == 1
    assert len(found["pods"]) == 3 * len(names) - 2


def test_a_scale_of_one_of_several_workloads_names_its_namespace(run):
    made = [{**web(3), "metadata": {"name": "web", "namespace": name}} for name in ("shop", "blog")]
    result = run("whatif", "--scale", "deployment/web=1", cluster=[node("n0")], manifests=made, code=1)
    assert "there are several: blog/web, shop/web; write KIND/NAMESPACE/NAME" in result.stderr
