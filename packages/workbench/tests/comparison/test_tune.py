"""Tuning: found optima against brute force, honest checks, and configurations that are what they say."""

import itertools
import random

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.executors import workers
from berth_workbench.comparison.loads import ClusterLoad, hash_of, packed
from berth_workbench.comparison.objectives import PARTED, WHOLE, Objective, ObjectiveError
from berth_workbench.comparison.results import ResultsDirectory
from berth_workbench.comparison.run import run
from berth_workbench.comparison.settings import FIT, STRATEGY, SettingSpace, SpaceError
from berth_workbench.comparison.tasks import TaskError
from berth_workbench.comparison.tune import Tuner, tune
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from packages.workbench.tests.asking import WatchUntil, stopped
from packages.workbench.tests.comparison.clusters import document, random_load, random_settings, source
from tests.effort import worlds_of

DEFAULT = ConfigurationSource("default")
BALANCED = "NodeResourcesBalancedAllocation"
PRICES = Prices(default=1.0)


def some_load(pods=9):
    """Four nodes that three pods fill, so that three nodes are enough for nine."""
    nodes = [make_node(f"n{i}").capacity(cpu="3", memory="12Gi", pods="20").zone("ab"[i % 2]).build() for i in range(4)]
    made = [
        make_pod(f"p{i}").request(cpu="1", memory=f"{1 + i % 3}Gi").owned_by("ReplicaSet", "r") for i in range(pods)
    ]
    return ClusterLoad(tuple(nodes), tuple(pod.build() for pod in made))


def backwards(carry):
    """The results of each batch of runs in the opposite order, as may happen with several workers."""

    def hands(tasks, done, watch):
        ended = []
        carry(tasks, ended.append, watch)
        for each in reversed(ended):
            done(each)

    return hands


def tuned(directory, objectives, *, load=None, space=None, budget=50, jobs=1, is_backwards=False, **more):
    content = packed(load or some_load())
    name = hash_of(content)
    file = ResultsDirectory(directory).keep_input(name, content)
    more.setdefault("watch", WorkWatch(jobs=jobs))
    with workers({name: file}) as carry:
        hands = backwards(carry) if is_backwards else carry
        tuner = Tuner(
            space or SettingSpace(DEFAULT, (FIT, BALANCED)),
            hands,
            name,
            prices=PRICES,
            **{"watch": WorkWatch(jobs=jobs), **more},
        )
        return tune(tuner, [Objective.parse(text) for text in objectives], "default", budget=budget)


def test_the_best_is_that_of_all_points_tried_one_by_one(tmp_path):
    space, load = SettingSpace(DEFAULT, (FIT,)), some_load()
    every = itertools.product(*(range(len(each.values)) for each in space.parameters))
    costs = {}
    for point in every:
        loaded = space.source(point, "x").load()
        costs[point] = sum(run(load, loaded, seed, prices=PRICES).figures["cost"] for seed in (0, 1)) / 2
    found = tuned(tmp_path, ["cost"], load=load, space=space, seeds=2)
    (outcome,) = next(point.outcomes for point in found.points if point.changes == found.best)
    assert outcome.mean == min(costs.values()) < costs[space.base]
    assert len(found.best) == 1  # nothing else is needed, and nothing else is changed
    assert found.is_better and found.outcomes[0].better == "b"
    assert found.check_seeds == 2 and found.runs <= 50


def spread_load():
    """Nodes that few pods fill, and pods that would rather be spread: only a strong hand packs them."""
    nodes = [
        make_node(f"n{i}").capacity(cpu="8", memory="32Gi", pods="20").zone("abc"[i % 3]).build() for i in range(6)
    ]
    pods = []
    for app in ("a", "b", "c"):
        for number in range(4):
            pod = make_pod(f"{app}{number}").label("app", app).owned_by("ReplicaSet", app)
            pod.request(cpu="1", memory="2Gi").spread(
                "topology.kubernetes.io/zone", {"app": app}, when="ScheduleAnyway"
            )
            pod.spread("kubernetes.io/hostname", {"app": app}, when="ScheduleAnyway")
            pods.append(pod.build())
    return ClusterLoad(tuple(nodes), tuple(pods))


@pytest.mark.parametrize("budget", [40, 100])
def test_what_people_would_try_by_hand_is_not_missed(tmp_path, budget):
    """NodeResourcesFit strong, with MostAllocated: neither alone makes a difference beside the spreading."""
    space, load = SettingSpace(DEFAULT), spread_load()
    by_hand = {FIT: 20, STRATEGY: "MostAllocated"}
    point = tuple(
        each.values.index(by_hand[each.name]) if each.name in by_hand else each.base for each in space.parameters
    )
    wanted = run(load, space.source(point, "x").load(), 0).figures["packing.cpu"]
    assert wanted > 1.5 * run(load, DEFAULT.load(), 0).figures["packing.cpu"]
    found = tuned(tmp_path, ["packing.cpu"], load=load, space=space, budget=budget)
    assert found.outcomes[0].b >= wanted - 0.01
    assert found.is_better and budget - 3 < found.runs <= budget  # less than a point more takes


def weights_of(space, **weights):
    return tuple(
        each.values.index(weights[each.name]) if each.name in weights else each.base for each in space.parameters
    )


def test_points_that_decide_alike_are_run_once():
    """Only ratios matter, and a strategy only where NodeResourcesFit scores."""
    space = SettingSpace(source({FIT: (1, None), BALANCED: (1, None)}))
    same = [{FIT: 1, BALANCED: 1}, {FIT: 50, BALANCED: 50}]
    assert len({space.essence(weights_of(space, **each)) for each in same}) == 1
    packed_or_not = [{FIT: 0, STRATEGY: kind} for kind in ("LeastAllocated", "MostAllocated")]
    assert len({space.essence(weights_of(space, **each)) for each in packed_or_not}) == 1
    others = [{FIT: 1}, {FIT: 2}, {FIT: 2, STRATEGY: "MostAllocated"}, {FIT: 0}, {BALANCED: 0}, {FIT: 0, BALANCED: 0}]
    assert len({space.essence(weights_of(space, **each)) for each in others}) == len(others)


@pytest.mark.parametrize("seed", range(worlds_of(36, in_all=12)))
def test_a_grid_of_everything_finds_nothing_much_better(tmp_path, seed, monkeypatch):
    """Two plugins and the strategy, every point by force; the search has a budget for a part of the runs."""
    monkeypatch.setattr("berth_workbench.comparison.settings.GRID", (0, 1, 5, 50))
    load = random_load(seed, pods=6, nodes=4)
    base = source({FIT: (1, None), BALANCED: (1, None), "NodeAffinity": (2, None), "TaintToleration": (3, None)})
    space = SettingSpace(base, (FIT, BALANCED))
    objective = random.Random(seed).choice(["packing.cpu", "utilisation.memory", "min:fragmentation.cpu", "nodesUsed"])
    seeds = (0, 1)
    every = {}
    for point in itertools.product(*(range(len(each.values)) for each in space.parameters)):
        every.setdefault(space.essence(point), point)
    measure, way = Objective.parse(objective).terms[0].measure, Objective.parse(objective).terms[0].way

    def outcomes(point):
        configuration = space.source(point, "x").load()
        return [run(load, configuration, number).figures for number in seeds]

    own = outcomes(space.base)
    least = sum(each["pending"] for each in own)
    best, noise = None, 0.0
    for point in every.values():
        found = outcomes(point)
        if sum(each["pending"] for each in found) <= least:
            values = [way * each.get(measure, 0.0) for each in found]
            noise = max(noise, max(values) - min(values))
            best = sum(values) / 2 if best is None else max(best, sum(values) / 2)
    found = tuned(tmp_path, [objective], load=load, space=space, seeds=2, budget=30)
    told = next(each.outcomes[0].mean for each in found.points if each.changes == found.best)
    assert way * told >= best - noise - 1e-9, (told, best, noise, len(every))


def test_the_configuration_that_comes_out_does_what_was_told_of_it(tmp_path):
    found = tuned(tmp_path, ["cost"], seeds=2, seed=10)
    best = ConfigurationSource.of_document("best", msgspec.json.decode(msgspec.json.encode(found.document))).load()
    fresh = [run(some_load(), best, seed, prices=PRICES).figures for seed in (12, 13)]
    told = {figure.name: figure.b for figure in found.check}
    assert told["cost"] == sum(figures["cost"] for figures in fresh) / 2
    assert told["packing.cpu"] == pytest.approx(sum(figures["packing.cpu"] for figures in fresh) / 2)


@pytest.mark.parametrize("how", [{}, pytest.param({"jobs": 2}, marks=pytest.mark.long), {"is_backwards": True}])
def test_the_same_seed_comes_to_the_same_wherever_the_runs_are_carried_out(tmp_path, how):
    objectives = ["cost", "spread.zone.evenness"]
    first, again = (
        msgspec.json.encode(tuned(tmp_path / str(number), objectives, budget=30, seeds=2, **more))
        for number, more in enumerate(({}, how))
    )
    assert first == again


def test_nothing_is_claimed_where_nothing_can_be_better(tmp_path):
    one_node = ClusterLoad((make_node("n").capacity(cpu="3", pods="9").build(),), some_load(3).pods)
    found = tuned(tmp_path, ["cost"], load=one_node, budget=40)
    assert (found.best, found.is_better, found.outcomes[0].difference) == ({}, False, 0.0)
    assert found.document == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{}],
    }


def test_luck_in_the_search_is_not_taken_for_a_gain(tmp_path):
    """All nodes and pods are alike and nothing scores, so that only lots make a difference; fresh seeds show it."""
    settings = dict.fromkeys(random_settings(0))
    nodes = tuple(make_node(f"n{i}").capacity(cpu="64", pods="99").zone("abc"[i % 3]).build() for i in range(6))
    pods = tuple(make_pod(f"p{i}").owned_by("ReplicaSet", "r").build() for i in range(9))
    lots = {**settings, "ImageLocality": (1, None)}
    space = SettingSpace(source({**lots, FIT: None}))
    found = tuned(tmp_path, ["spread.node.evenness"], load=ClusterLoad(nodes, pods), space=space, budget=40)
    assert not found.is_better


def test_no_configuration_that_leaves_more_pods_without_a_node_is_the_best(tmp_path):
    """Packed, two small pods share a node, and the second large one has no room: to use less must not pay."""
    nodes = [make_node(f"n{i}").capacity(cpu="4", memory="8Gi", pods="9").build() for i in range(2)]
    small = [make_pod(f"s{i}").request(cpu="1", memory="1Gi").build() for i in range(2)]
    large = [make_pod(f"z{i}").request(cpu="3", memory="1Gi").build() for i in range(2)]
    load = ClusterLoad(tuple(nodes), (*small, *large))
    found = tuned(tmp_path, ["min:utilisation.cpu"], load=load, seeds=2)
    assert found.best == {}
    tempting = [point for point in found.points if point.outcomes[0].mean < 1.0]
    assert tempting and not any(point.is_on_front for point in tempting)


def test_nothing_on_the_front_is_beaten_and_everything_else_is(tmp_path):
    found = tuned(tmp_path, ["cost", "spread.node.evenness"], budget=70, seeds=2)
    values = [(point.outcomes[0].mean, -point.outcomes[1].mean) for point in found.points]
    front = {value for value, point in zip(values, found.points, strict=True) if point.is_on_front}
    assert len(front) == len(found.front) > 1
    for value in values:
        beaten = any(x <= value[0] and y <= value[1] and (x, y) != value for x, y in values)
        assert beaten != (value in front)


def test_points_become_configurations_with_just_these_weights():
    rng = random.Random(1)
    settings = {**random_settings(5), "ImageLocality": (20, None), "NodeAffinity": None}
    for base in (DEFAULT, source(settings)):
        space = SettingSpace(base)
        for _ in range(6):
            point = space.random_point(rng)
            chosen = {each.name: each.values[index] for each, index in zip(space.parameters, point, strict=True)}
            loaded = space.source(point, "x").load()
            core = VirtualCluster(config=loaded.config, registry=loaded.registry).core
            (profile,) = core.profiles.values()
            assert {each.name: each.weight for each in profile.scorers} == {
                name: weight for name, weight in chosen.items() if name != STRATEGY and weight
            }
            args = loaded.config.profiles[0].plugin_config.get(FIT) or {}
            assert args.get("scoringStrategy", {}).get("type", "LeastAllocated") == chosen[STRATEGY]
            before = base.load()
            filters = {each.name for each in profile.filters}
            own = VirtualCluster(config=before.config, registry=before.registry).core.profiles["default-scheduler"]
            assert filters == {each.name for each in own.filters}


def test_what_cannot_be_tuned():
    with pytest.raises(SpaceError, match="--plugins NodeName: default does not score by it"):
        SettingSpace(DEFAULT, ("NodeName",))
    old = {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration"}
    with pytest.raises(SpaceError, match=r"only kubescheduler\.config\.k8s\.io/v1 can be tuned"):
        SettingSpace(ConfigurationSource.of_document("old", old))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes", "say min:nodes or max:nodes"),
        ("costs", "there is no measure 'costs'; did you mean cost?"),
        ("min:costs", "there is no measure 'costs'; did you mean cost?"),
        ("nodesused:2,cost", "there is no measure 'nodesused'; did you mean nodesUsed"),
        ("packing", "no measure 'packing'; say which, as in packing.cpu or packing.memory"),
        ("waitin.p99", "no measure 'waitin.p99'; did you mean waiting.p99"),
        ("speed", "there is no measure 'speed'; there are bound, cost, "),
        ("cost:0", "the weight '0' is not a number above 0"),
        ("cost:x", "the weight 'x' is not"),
        ("cost:1:2", "is not of the form"),
        ("cost,cost", "named twice"),
        ("", "is not of the form"),
    ],
)
def test_objectives_that_cannot_be_read(text, problem):
    with pytest.raises(ObjectiveError, match=problem):
        Objective.parse(text)


def test_every_measure_of_a_run_can_be_an_objective_and_no_other_name_is_offered():
    of_cluster = run(some_load(), DEFAULT.load(), 0, prices=PRICES).figures
    of_day = run(
        daily_pattern(DailyPattern(pods=50, nodes=3, services=2, seconds=3600.0), 0), DEFAULT.load(), 0, prices=PRICES
    ).figures
    there = {*of_cluster, *of_day}
    for name in there:
        assert Objective.parse(f"max:{name}").terms[0].measure == name
    assert set(WHOLE) <= there
    assert {f"{name}.{part}" for name, parts in PARTED.items() for part in parts} <= there | {"spread.zone.maxSkew"}


def test_a_measure_that_a_run_does_not_come_to_is_told_with_what_looks_like_it():
    with pytest.raises(
        ObjectiveError, match=r"no measure 'packing\.cpus'; did you mean packing\.cpu\? They have nodes, "
    ):
        Objective.parse("packing.cpus").check(["packing.cpu", "nodes"])


def test_an_objective_is_less_the_better_it_is():
    base = {"cost": 10.0, "packing.cpu": 0.5, "pending": 0.0}
    single, both = Objective.parse("cost"), Objective.parse("cost:2,packing.cpu:1")
    assert (single.value({"cost": 7.0}, base), single.value(base, base)) == (7.0, 10.0)
    assert both.value(base, base) == 2 - 1
    assert both.value({"cost": 5.0, "packing.cpu": 1.0}, base) == 1 - 2
    assert Objective.parse("max:pending").value({"pending": 3.0}, base) == -3.0
    assert Objective.parse("packing.cpu").value({}, base) == -0.5
    with pytest.raises(ObjectiveError, match="no measure 'cost'; --prices says"):
        single.check(["pending"])


def test_whoever_stops_it_gets_the_best_by_then(tmp_path):
    watch = WatchUntil(lambda _: watch.done >= 30)
    found = tuned(tmp_path, ["cost"], watch=watch)
    assert (found.is_complete, found.check_seeds, found.is_better) == (False, 0, False)
    assert found.points[0].changes == {} and found.runs == 30
    at_once = tuned(tmp_path / "again", ["cost"], watch=stopped())
    assert (at_once.points, at_once.best, at_once.runs) == ((), {}, 0)


def test_a_budget_that_is_too_small_and_a_run_that_fails(tmp_path):
    with pytest.raises(ObjectiveError, match="a budget of 5 runs is too small: 3 seeds need 12 at least"):
        tuned(tmp_path, ["cost"], budget=5)
    broken = msgspec.structs.replace(some_load(), steps=(("drain", {"nodes": "nowhere"}),))
    with pytest.raises(TaskError, match="a run has failed: drain nowhere"):
        tuned(tmp_path, ["cost"], load=broken)


@pytest.fixture
def files(tmp_path):
    load = some_load()
    nodes = [make_node(f"n{i}").capacity(cpu="3", memory="12Gi", pods="20").document for i in range(4)]
    pods = [make_pod(pod.metadata.name).request(cpu="1").document for pod in load.pods]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([*nodes, *pods]))
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(document({FIT: (1, None), BALANCED: (1, None)})))
    return tmp_path


def test_the_command(files):
    def invoke(*args):
        usual = ("tune", "--cluster", str(files / "cluster.yaml"), "--jobs", "1", "--budget", "30", "--seeds", "2")
        return CliRunner().invoke(main, [*usual, *args])

    plain = invoke("--objective", "nodesUsed", "--plugins", FIT, "--plot", str(files / "course.svg"))
    assert plain.exit_code == 0, plain.output
    told, _, text = plain.stdout.partition("---\n")
    best = f"Better than default with each of 2 seeds that the search has not seen: {STRATEGY} MostAllocated ("
    assert " ".join(told.split()).startswith(f"Assumed: the default configuration; --config names another. {best}")
    best = ConfigurationSource.of_document("best", yaml.safe_load(text)).load()
    assert run(ClusterLoad.of(snapshot(files)), best, 0).figures["nodesUsed"] == 3
    two = invoke(
        *("--objective", "nodesUsed", "--objective", "max:spread.zone.evenness", "--plugins", FIT),
        *("--config", str(files / "base.yaml"), "--write", str(files / "best.yaml")),
    )
    assert two.exit_code == 1 and "the runs have no measure 'spread.zone.evenness'" in two.output
    front = invoke(
        *("--objective", "nodesUsed", "--objective", "fragmentation.cpu", "--plugins", FIT),
        *("--config", str(files / "base.yaml"), "--write", str(files / "best.yaml"), "--plot", str(files / "f.png")),
    )
    assert front.exit_code == 0, front.output
    assert max(map(len, front.output.splitlines())) <= 80
    assert "The front: nothing that was tried beats these in both" in front.output
    assert yaml.safe_load((files / "best.yaml").read_text())["kind"] == "KubeSchedulerConfiguration"
    assert (files / "f.png").read_bytes().startswith(b"\x89PNG")
    structured = msgspec.json.decode(invoke("--objective", "nodesUsed", "--plugins", FIT, "-o", "json").stdout)
    assert structured["best"] == {STRATEGY: "MostAllocated"} and structured["isBetter"] is True


def snapshot(files):
    from berth_workbench.snapshot.snapshot import read_cluster

    return read_cluster([files / "cluster.yaml"])
