"""Lives of a queue: what is said where one cannot be replayed, and lives as odd as chance makes them."""

import json
import random

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.cases import CaseError
from berth_workbench.cases.queue_lives import MOVES, replay_life

ADD = {"at": 7, "op": "add", "pod": {"name": "a", "priority": 0}}


def life(*steps, **more):
    return {"name": "some", "queue": list(steps), **more}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (life({"at": 7, "op": "sleep"}), "Invalid value 'sleep' - at `$.queue[0].op`"),
        (life({"op": "pop"}), "Object missing required field `at` - at `$.queue[0]`"),
        (life({"at": "soon", "op": "pop"}), "Expected `int`, got `str` - at `$.queue[0].at`"),
        (life(ADD, {"at": 6, "op": "pop"}), "the step pop at 6: at must not be before the last step's (7)"),
        (life({"at": 10**15, "op": "pop"}), "at must not be before the last step's (0), nor after 1000000 s"),
        (life(ADD, {**ADD, "at": 8}), "there is a pod 'a' already"),
        (life(ADD, {"at": 8, "op": "done", "name": "a"}), "the step done at 8: pod 'a' is not in flight"),
        (life(ADD, {"at": 8, "op": "fail", "name": "b"}), "pod 'b' is not in flight"),
        (life({"at": 8, "op": "delete", "name": "b"}), "there is no pending pod 'b'"),
        (life({**ADD, "op": "update"}), "there is no pending pod 'a'"),
        (life({"at": 8, "op": "move", "event": "Rain"}), "event 'Rain' is not known; the known ones: NodeAdd, "),
        (life(generation="v1.5"), "generation 'v1.5' is not known; the known ones: v1.36, v1.20"),
        ({"queue": []}, "missing required field `name`"),
    ],
)
def test_a_life_that_cannot_be_replayed_is_told(case, message):
    with pytest.raises(CaseError) as told:
        replay_life(case, in_tree_registry())
    assert message in str(told.value)


def test_a_pod_that_was_deleted_in_flight_does_not_come_back():
    steps = (
        ADD,
        {"at": 8, "op": "pop"},
        {"at": 9, "op": "delete", "name": "a"},
        {"at": 10, "op": "fail", "name": "a", "unschedulablePlugins": ["A"]},
    )
    last = replay_life(life(*steps), in_tree_registry())[-1]
    assert not any(last.values())


def random_life(seed, generation):
    """Steps as a recorder would make them: whatever makes sense, in any order, at any pace."""
    rng, steps, now, born = random.Random(seed), [], 0, 0
    known = {}  # name: the pod as it was last given
    for _ in range(rng.randrange(20, 90)):
        now += rng.choice((1, 7, 7, 7, 500, 1000, 1993, 12_000, 31_000))
        pod = {"name": f"p{born}", "priority": rng.choice((0, 0, 10)), "labels": labels(rng)}
        some = rng.choice(sorted(known)) if known else None
        step = rng.choice(("add", "add", "pop", "pop", "fail", "fail", "done", "move", "activate", "update", "delete"))
        if step == "add":
            known[pod["name"]], born = pod, born + 1
            steps.append({"at": now, "op": "add", "pod": pod})
        elif step == "pop":
            steps.append({"at": now, "op": "pop"})
        elif step == "move":
            hints = {plugin: rng.sample(sorted(known), rng.randint(0, len(known))) for plugin in "ABC"}
            wrong = {rng.choice("ABC"): rng.sample(sorted(known), rng.randint(0, len(known)))}
            event = "NodeAdd" if generation == "v1.20" else rng.choice(list(MOVES))
            steps.append({"at": now, "op": "move", "event": event, "hints": hints, "hintErrors": wrong})
        elif some is None:
            continue
        elif step == "update":
            known[some] = {**known[some], "labels": labels(rng)}
            steps.append({"at": now, "op": "update", "pod": known[some]})
        elif step == "activate":
            steps.append({"at": now, "op": "activate", "names": [some, "nobody"]})
        elif step == "delete":
            steps.append({"at": now, "op": "delete", "name": some})
            del known[some]
        else:
            steps.append({"at": now, "op": step, "name": "popped", "rng": rng.random()})
    return life(*steps, generation=generation)


def labels(rng):
    return rng.choice(({}, {"gate": "closed"}, {"gate": "open"}, {"wake": "A"}, {"wake": "C", "gate": "closed"}))


def lived(case, registry, *, memos=True):
    """Replay a life whose steps `fail` and `done` leave open which popped pod they mean."""
    steps, rng, popped, over = [], random.Random(1), [], set()
    for step in case["queue"]:
        if step.get("name") == "popped":
            if not popped:
                continue
            name = popped.pop(rng.randrange(len(popped)))
            step = {"at": step["at"], "op": step["op"], "name": name}
            if step["op"] == "fail":
                step["unschedulablePlugins"] = rng.choice(([], ["A"], ["A", "C"], ["B"]))
                step["pendingPlugins"] = rng.choice(([], [], ["B"]))
            else:
                over.add(name)
        elif step.get("name") in over or (step["op"] == "update" and step["pod"]["name"] in over):
            continue
        steps.append(step)
        if step["op"] == "pop":
            last = replay_life({**case, "queue": steps}, registry)[-1]
            popped += [last["popped"]] if "popped" in last else []
    whole = {**case, "queue": steps}
    return whole, replay_life(whole, registry, memos=memos)


@pytest.mark.parametrize("generation", ["v1.36", "v1.20"])
def test_whatever_happens_each_pod_is_in_one_place_until_it_is_gone(generation):
    registry = in_tree_registry()
    for seed in range(15):
        case, states = lived(random_life(seed, generation), registry)
        pending, gone = set(), set()
        for step, state in zip(case["queue"], states, strict=True):
            name = step.get("name") or step.get("pod", {}).get("name")
            if step["op"] == "add":
                pending.add(name)
            elif step["op"] in ("done", "delete"):
                pending.discard(name)
                gone.add(name)
            places = [pod for key, pods in state.items() if key not in ("popped", "inFlight") for pod in pods]
            assert len(places) == len(set(places)), f"seed {seed}: in two places after {step}"
            assert not gone & set(places), f"seed {seed}: gone, and queued after {step}"
            assert set(places) | set(state["inFlight"]) >= pending, f"seed {seed}: lost after {step}"
            assert not set(places) & set(state["inFlight"]), f"seed {seed}: queued in flight after {step}"


def decide(tmp_path, *lines, **options):
    file = tmp_path / "lives.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    flags = [word for name, given in options.items() for word in (f"--{name}", given)]
    return CliRunner().invoke(main, ["decide", *flags, str(file)])


def test_decide_prints_the_states_of_a_life(tmp_path):
    result = decide(tmp_path, life(ADD, {"at": 8, "op": "pop"}))
    assert result.exit_code == 0
    empty = {"active": [], "backoff": [], "errorBackoff": [], "unschedulable": [], "gated": [], "inFlight": []}
    states = [{**empty, "active": ["a"]}, {**empty, "popped": "a", "inFlight": ["a"]}]
    assert json.loads(result.stdout) == {"name": "some", "states": states}


def test_decide_tells_what_is_wrong_with_a_life_and_goes_on(tmp_path):
    result = decide(tmp_path, life({"at": 7, "op": "sleep"}), life(ADD))
    assert result.exit_code == 1
    assert "lives.jsonl:1: life 'some': Invalid value 'sleep'" in result.stderr
    assert json.loads(result.stdout)["name"] == "some"


def test_a_life_is_of_one_generation(tmp_path):
    result = decide(tmp_path, life(ADD), generation="v1.20")
    assert result.exit_code == 1
    assert "its steps mean nothing to a queue of v1.20" in result.stderr
