"""SySched in a scheduler; expectations counted by hand from the rule in upstream's README."""

import pytest

from berth.testing import VirtualCluster, check_plugin, make_node, make_pod
from berth_plugins import sysched
from berth_plugins.sysched import PROFILES, SySched, profile_named_by


def profile(name, *allowed, action="SCMP_ACT_ALLOW"):
    spec = {"syscalls": [{"action": action, "names": list(allowed)}, {"action": "SCMP_ACT_KILL", "names": ["reboot"]}]}
    return PROFILES.read({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})


def runs(name, node_name, profile_name):
    pod = pending(name, profile_name).node(node_name)
    pod.status["phase"] = "Running"
    return pod


def pending(name, profile_name=None):
    pod = make_pod(name)
    if profile_name is not None:
        localhost = {"type": "Localhost", "localhostProfile": f"operator/default/{profile_name}.json"}
        pod.spec["securityContext"] = {"seccompProfile": localhost}
    return pod


@pytest.fixture
def cluster(config):
    found = VirtualCluster(plugins={"SySched": SySched}, config=config("SySched"))
    for name in ("few", "many", "empty"):
        found.put(make_node(name).capacity(cpu="4", memory="8Gi"))
    for each in (profile("few", "read"), profile("many", "read", "write", "open", action="SCMP_ACT_LOG")):
        found.put(each)
    found.put(runs("a", "few", "few"))
    found.put(runs("b", "many", "many"))
    return found


def scores(cluster, pod):
    """The raw scores by node."""
    (plugin,) = [each.plugin for each in cluster.core.profiles["default-scheduler"].plugins if each.name == "SySched"]
    table = cluster.core.cache.table
    return {table.names[row]: plugin.score(None, pod.info(), table.view(row)) for row in table.rows()}


def test_calls_that_only_others_need_are_counted_on_both_sides(cluster):
    # On "few" the pod sees nothing new, but the one there sees two more; on "many" the new one sees two.
    assert scores(cluster, pending("p", "many")) == {"few": 2, "many": 0, "empty": 0}
    assert scores(cluster, pending("p", "few")) == {"few": 0, "many": 2, "empty": 0}


def test_two_pods_of_one_name_on_a_node_count_once(cluster):
    twin = runs("b", "many", "few")
    twin.metadata.update(namespace="other", uid="other/b")
    before = scores(cluster, pending("p", "few"))
    cluster.put(twin)
    assert scores(cluster, pending("p", "few")) == before


def test_a_pod_without_a_profile_has_the_default_one(cluster):
    assert scores(cluster, pending("p")) == {"few": 0, "many": 0, "empty": 0}
    default = {"metadata": {"name": "all-syscalls", "namespace": "default", "uid": "all"}}
    calls = [{"action": "SCMP_ACT_ALLOW", "names": ["read", "write", "open", "ioctl"]}]
    cluster.put(PROFILES.read({**default, "spec": {"syscalls": calls}}))
    assert scores(cluster, pending("p")) == {"few": 3, "many": 1, "empty": 0}


def test_pods_that_leave_and_profiles_that_change_are_followed(cluster):
    cluster.delete("Pod", "default/b")
    assert scores(cluster, pending("p", "few"))["many"] == 0
    cluster.put(profile("few", "read", "splice"))
    assert scores(cluster, pending("p", "many"))["few"] == 1 + 2


def test_the_node_with_the_fewest_is_chosen(cluster):
    cluster.delete("Node", "empty")
    cluster.put(pending("p", "many"))
    assert cluster.run().nodes_of()["p"] == "many"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("localhost/operator/ns/a.b.json", ("ns", "a.b")),
        ("ns/a", ("ns", "a")),
        ("a.json", None),
        ("ns/.json", None),
        ("/a", None),
    ],
)
def test_profiles_are_named_by_paths(path, named):
    assert profile_named_by(path) == named


@pytest.mark.parametrize("is_there", [False, True])
def test_it_says_what_the_risk_is_made_of(cluster, is_there):
    if is_there:
        cluster.put(runs("p", "few", "many"))
    (plugin,) = [each.plugin for each in cluster.core.profiles["default-scheduler"].plugins if each.name == "SySched"]
    table, pod = cluster.core.cache.table, pending("p", "many").info()
    (told,) = plugin.explain_score(pod, table.view(table.row_of["few"]))
    assert told.startswith("the pod makes 3 system calls, 1 pods there 1 together: it would see 0 that it does not ")
    assert told.endswith("need, and they 2, a risk of 2")
    (told,) = plugin.explain_score(pending("q").info(), table.view(table.row_of["few"]))
    assert told.startswith("no profile says which system calls the pod makes")


@pytest.mark.parametrize("logged", [3, 1000])
def test_it_keeps_its_contract_as_everything_changes(config, monkeypatch, logged):
    """More calls than a word has, pods that come and go, profiles and nodes that change."""
    monkeypatch.setattr(sysched, "LOGGED", logged)

    def some_profile(rng):
        calls = [f"call{rng.randrange(150)}" for _ in range(rng.randrange(60))]
        return [profile(rng.choice(("few", "many")), *calls)]

    check_plugin(
        SySched,
        config=config("SySched"),
        pods=lambda rng, name: pending(name, rng.choice(("few", "many", None))),
        objects=some_profile,
    )
