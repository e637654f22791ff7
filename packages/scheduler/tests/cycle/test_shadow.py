"""A shadow decides beside the profile that counts, says how it would have decided, and changes nothing.

Expectations are those of docs/living-with-plugins.md.
"""

import random

import pytest

from berth.config.load import load_config
from berth.cycle.instrument import Instrument
from berth.cycle.shadow import BUSY_PODS, DIFFERENCES_KEPT
from berth.plugin import unschedulable
from berth.testing import VirtualCluster, make_node, make_pod
from berth.testing.invariants import check, check_memos
from packages.scheduler.tests.config.documents import v1_document


class Plugin:
    """What the plugins below have in common."""

    def __init__(self, args, handle):
        self.handle = handle


class Prefers(Plugin):
    name = "Prefers"

    def score(self, state, pod, node):
        return 100 * (node.name == "n2")


class Bars(Plugin):
    """Bars n0."""

    name = "Bars"

    def filter(self, state, pod, node):
        return unschedulable("barred") if node.name == "n0" else None


class BarsAll(Plugin):
    name = "BarsAll"

    def pre_filter(self, state, pod):
        return unschedulable("no room at the inn")


class Breaks(Plugin):
    name = "Breaks"

    def filter(self, state, pod, node):
        raise ValueError("boom")


class Dawdles(Plugin):
    name = "Dawdles"

    def filter(self, state, pod, node):
        state.work.spend(self.name, 10**9)


class Meddles(Plugin):
    """Does all that a shadow must not do."""

    name = "Meddles"
    done: tuple[str, ...] = ()

    def _do(self, what):
        type(self).done += (what,)

    def pre_filter(self, state, pod):
        for uid in ("default/held", "default/late"):
            self.handle.activate(uid)
            self.handle.waiting.reject(uid, "Meddles", "meddled")
        self.handle.rng.random()
        return unschedulable("meddled")

    def post_filter(self, state, pod, diagnosis):
        self._do("post_filter")
        return None, None

    def reserve(self, state, pod, node_name):
        self._do("reserve")

    def unreserve(self, state, pod, node_name):
        self._do("unreserve")

    def permit(self, state, pod, node_name):
        self._do("permit")

    def pre_bind(self, state, pod, node_name):
        self._do("pre_bind")

    def pre_enqueue(self, pod):
        self._do("pre_enqueue")


PLUGINS = {each.name: each for each in (Prefers, Bars, BarsAll, Breaks, Dawdles, Meddles)}


class Watcher(Instrument):
    """What an observer is told."""

    def __init__(self):
        self.shadowed_, self.skipped = [], []

    def shadowed(self, shadow, of, kind, plugins):
        self.shadowed_.append((shadow, of, kind, tuple(plugins)))

    def shadow_skipped(self, shadow, reason):
        self.skipped.append((shadow, reason))


def profile(name, *enabled, **more):
    return {"schedulerName": name, "plugins": {"multiPoint": {"enabled": [{"name": one} for one in enabled]}}, **more}


def watched(active, shadow, nodes=3, percentage=100, of_nodes=None, **options):
    """A cluster whose active profile has some plugins, and its shadow others."""
    config = v1_document(
        profiles=[
            profile("default-scheduler", *active),
            profile("next", *shadow, shadow={"of": "default-scheduler", "percentage": percentage}),
        ],
        percentageOfNodesToScore=of_nodes,
    )
    made = [make_node(f"n{number}").capacity(cpu="8", memory="8Gi") for number in range(nodes)]
    return VirtualCluster(*made, plugins=PLUGINS, config=config, **options)


def placed(cluster, *pods):
    for pod in pods or [make_pod("web").request(cpu="1")]:
        cluster.put(pod)
        cluster.run()
    return cluster


def shadow_of(cluster):
    (shadow,) = cluster.core.shadows
    return shadow


def only_difference(cluster):
    ((found, _uid, _at),) = shadow_of(cluster).differences
    return found.kind, found.a, found.b, found.plugins


@pytest.mark.parametrize("enabled", [(), ("Prefers",), ("Bars", "Prefers")])
def test_a_shadow_like_the_profile_finds_no_difference(enabled):
    watcher = Watcher()
    cluster = watched(enabled, enabled, instrument=watcher)
    placed(cluster, *(make_pod(f"p{number}").request(cpu="1") for number in range(20)))
    assert dict(shadow_of(cluster).kinds) == {"same": 20}
    assert set(watcher.shadowed_) == {("next", "default-scheduler", "same", ())}


def test_where_only_a_part_of_the_nodes_is_looked_at_it_is_the_same_part():
    cluster = watched((), (), nodes=130, of_nodes=10)
    placed(cluster, *(make_pod(f"p{number}").request(cpu="1") for number in range(30)))
    assert dict(shadow_of(cluster).kinds) == {"same": 30}
    assert cluster.core.search.start_index


@pytest.mark.parametrize(
    ("active", "shadow", "kind", "node", "other", "plugin"),
    [
        (("Bars", "Prefers"), ("BarsAll",), "fitsNoMore", "n2", None, "BarsAll"),
        (("BarsAll",), ("Prefers",), "fitsNow", None, "n2", "BarsAll"),
        (("Prefers",), ("Breaks",), "error", "n2", None, "Breaks"),
        (("Prefers",), ("Dawdles",), "error", "n2", None, "Dawdles"),
    ],
)
def test_each_consequence_is_told_with_the_plugin_that_makes_it(active, shadow, kind, node, other, plugin):
    cluster = placed(watched(active, shadow))
    assert only_difference(cluster) == (kind, node, other, (plugin,))
    assert cluster.nodes_of()["web"] == (node or "")


def test_a_difference_of_scores_names_the_plugins_that_speak_for_the_other_node():
    cluster = watched((), ("Prefers",))
    cluster.put(make_pod("ballast").request(cpu="4", memory="4Gi").node("n2"))
    placed(cluster)
    kind, node, other, plugins = only_difference(cluster)
    assert (kind, other) == ("elsewhere", "n2")
    assert node in ("n0", "n1")
    assert plugins[0] == "Prefers"


def test_a_node_that_only_one_of_them_rejects_names_who_rejects_it():
    barred = watched((), ("Bars",))
    for name in ("n1", "n2"):
        barred.put(make_pod(f"ballast-{name}").request(cpu="4", memory="4Gi").node(name))
    placed(barred)
    assert only_difference(barred)[0] == "elsewhere"
    assert only_difference(barred)[1] == "n0"
    assert only_difference(barred)[3] == ("Bars",)
    allowed = watched(("Bars",), ())
    for name in ("n1", "n2"):
        allowed.put(make_pod(f"ballast-{name}").request(cpu="4", memory="4Gi").node(name))
    placed(allowed)
    assert only_difference(allowed)[2:] == ("n0", ("Bars",))


def test_nothing_that_it_does_has_an_effect(monkeypatch):
    monkeypatch.setattr(Meddles, "done", ())
    with_shadow, without = watched((), ("Meddles",), seed=5), watched((), (), percentage=0.01, seed=5)
    for cluster in (with_shadow, without):
        placed(cluster, *(make_pod(f"p{number}").request(cpu="1") for number in range(15)))
        placed(cluster, make_pod("held").request(cpu="100"), make_pod("late").request(cpu="10m"))
    assert Meddles.done == ()
    assert with_shadow.nodes_of() == without.nodes_of(), "the same lots are drawn"
    assert [type(each).__name__ for each in with_shadow.effects] == [type(each).__name__ for each in without.effects]
    assert shadow_of(with_shadow).kinds["fitsNoMore"] == 16
    assert with_shadow.rng.getstate() == without.rng.getstate()
    check(with_shadow.core)


def test_no_pod_can_ask_for_a_shadow():
    cluster = placed(watched((), ()), make_pod("web").scheduler("next"))
    assert cluster.nodes_of() == {"web": ""}
    assert not cluster.core.queue.find("default/web")
    assert list(cluster.core.profiles) == ["default-scheduler"]


def test_a_pod_that_fits_nowhere_for_either_is_no_difference_and_preempts_once():
    cluster = watched((), ())
    for number in range(3):
        cluster.put(make_pod(f"low-{number}").request(cpu="8").priority(0).node(f"n{number}"))
    placed(cluster, make_pod("high").request(cpu="8").priority(10))
    assert shadow_of(cluster).kinds["same"] >= 1
    assert set(shadow_of(cluster).kinds) == {"same"}
    assert sum(type(each).__name__ == "Request" and "EvictPod" in str(each) for each in cluster.effects) <= 1


def test_its_share_is_drawn_by_uid():
    cluster = watched((), (), percentage=25)
    many = [make_pod(f"p{number}").request(cpu="1m") for number in range(300)]
    placed(cluster, *many)
    assert 45 < shadow_of(cluster).kinds.total() < 105
    again = watched((), (), percentage=25)
    placed(again, *reversed(many))
    assert shadow_of(again).kinds.total() == shadow_of(cluster).kinds.total()


def test_under_load_it_looks_at_nothing():
    watcher = Watcher()
    cluster = watched((), (), instrument=watcher)
    for number in range(BUSY_PODS + 50):
        cluster.put(make_pod(f"p{number}").request(cpu="1m"))
    cluster.run()
    shadow = shadow_of(cluster)
    assert (shadow.skipped["busy"], shadow.kinds.total()) == (49, BUSY_PODS + 1)
    assert watcher.skipped == [("next", "busy")] * 49


def test_only_the_latest_differences_are_kept():
    cluster = watched((), ("BarsAll",))
    placed(cluster, *(make_pod(f"p{number}").request(cpu="1m") for number in range(DIFFERENCES_KEPT + 20)))
    shadow = shadow_of(cluster)
    assert len(shadow.differences) == DIFFERENCES_KEPT
    assert shadow.differences[-1].found.pod == f"default/p{DIFFERENCES_KEPT + 19}"
    assert shadow.kinds["fitsNoMore"] == shadow.causes["fitsNoMore", "BarsAll"] == DIFFERENCES_KEPT + 20


def test_its_plugins_are_told_of_pods_and_share_no_state_with_the_profiles():
    class Remembers(Plugin):
        name = "Remembers"
        made: tuple["Remembers", ...] = ()

        def __init__(self, args, handle):
            type(self).made += (self,)
            self.pods = set()

        def filter(self, state, pod, node):
            return None

        def pod_added(self, pod):
            self.pods.add(pod.name)

        def pod_removed(self, pod):
            self.pods.discard(pod.name)

        def reserve(self, state, pod, node_name):
            self.pods.add(f"{pod.name} reserved")

        def unreserve(self, state, pod, node_name):
            pass

    config = v1_document(
        profiles=[
            profile("default-scheduler", "Remembers"),
            profile("n", "Remembers", shadow={"of": "default-scheduler"}),
        ]
    )
    cluster = VirtualCluster(make_node("n0").capacity(cpu="8"), plugins={"Remembers": Remembers}, config=config)
    placed(cluster)
    active, shadow = Remembers.made
    assert active.pods == {"web", "web reserved"}
    assert shadow.pods == {"web"}


@pytest.mark.parametrize("seed", range(6))
def test_decisions_are_those_that_there_would_be_without_it(seed):
    """Random pods on a random cluster, with a shadow of other plugins and without one."""

    def life(shadows):
        rng = random.Random(seed)
        profiles = [profile("default-scheduler", "Bars")]
        if shadows:
            profiles += [
                profile("a", "Prefers", shadow={"of": "default-scheduler", "percentage": 70}),
                profile("b", "Breaks", shadow={"of": "default-scheduler"}),
                profile("c", shadow={"of": "default-scheduler"}),
            ]
        nodes = [make_node(f"n{number}").capacity(cpu=rng.choice("248"), memory="8Gi") for number in range(8)]
        config = load_config(v1_document(profiles=profiles, percentageOfNodesToScore=rng.choice([None, 60])))
        cluster = VirtualCluster(*nodes, plugins=PLUGINS, config=config, seed=seed)
        for number in range(60):
            pod = make_pod(f"p{number}").request(cpu=f"{rng.choice([100, 500, 2000])}m").label("app", rng.choice("ab"))
            if rng.random() < 0.3:
                pod.pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})
            if rng.random() < 0.2:
                pod.priority(rng.randrange(3))
            cluster.put(pod)
            if rng.random() < 0.5:
                cluster.run()
            if rng.random() < 0.1:
                cluster.advance(5.0)
            check(cluster.core)
        cluster.run()
        check_memos(cluster.core, make_pod("last").request(cpu="100m").info())
        return cluster

    plain, shadowed = life(False), life(True)
    assert plain.nodes_of() == shadowed.nodes_of()
    assert plain.rng.getstate() == shadowed.rng.getstate()
    kinds = {shadow.name: shadow.kinds for shadow in shadowed.core.shadows}
    assert kinds["b"]["error"] and not kinds["b"]["elsewhere"]
