"""Questions about an anonymized cluster have the answers that they have about the cluster, up to the names.

The clusters and questions are those of the oracle of what-ifs; `--questions 1000` asks more of them, and `--seed` one
alone. A question names nodes and workloads, which are called by their new names when it is asked again.
"""

import json
import random
import re

import msgspec

from berth_workbench.planning.node_groups import NodeGroupSpec
from berth_workbench.planning.upgrade.search import UpgradeRequest
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.snapshot.anonymizer import anonymized
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import autoscale_of, plan_upgrade, survival_of, waits_of, what_if
from packages.workbench.tests.planning.questions import World, random_question

NODE_NAMES = ("n{}", "gpu-{}", "ip-10-0-{}-7.eu-west-1.internal", "{}-rack")
"""What nodes are called; their numbers go beyond nine, so that alphabetical order is not that of numbers."""


def world_of(rng):
    """A cluster, and a question about it as flags."""
    world = World(rng)
    question = random_question(rng, world)
    called = rng.choice(NODE_NAMES)

    def named(value):
        return json.loads(re.sub(r"\bn(\d+)\b", lambda found: called.format(found[1]), json.dumps(value)))

    found = [Document(each["kind"], each, "a world") for each in named(world.manifests(rng))]
    return Snapshot(found), named(question), called.format(0)


def in_words(question, became):
    """Steps of flags, with the names that nodes, zones and workloads have there."""

    def renamed(step, text):
        parts = re.split(r"([=/:,])", text)
        return parse_flag(step, "".join(became.get(part, part) for part in parts))

    return [renamed(step, text) for step, text in question]


def with_old_names(value, names):
    """An answer as JSON, with every pseudonym replaced by the name that it stands for."""
    before = {after: name for name, after in names.items()}
    assert len(before) == len(names), "two names became one"
    pattern = re.compile("|".join(re.escape(each) for each in sorted(before, key=len, reverse=True)) or "(?!)")
    return pattern.sub(lambda found: before[found[0]], msgspec.json.encode(value, order="deterministic").decode())


def plain(value):
    return msgspec.json.encode(value, order="deterministic").decode()


def asked(snapshot, question, model, became, which):
    if which == "whatif":
        return what_if(snapshot, in_words(question, became))
    if which == "autoscale":
        group = NodeGroupSpec("g", like=became.get(model, model), nodes="*", max=5)
        return autoscale_of(snapshot, [group], used_at_most=1.0)
    if which == "survive":
        return survival_of(snapshot)
    if which == "upgrade":
        return plan_upgrade(snapshot, UpgradeRequest(effort=300))
    return waits_of(snapshot)


QUESTIONS = ("whatif", "whatif", "whatif", "autoscale", "survive", "upgrade", "wait")


def test_answers_are_the_same_up_to_names(pytestconfig):
    chosen = pytestconfig.getoption("seed")
    seeds = range(pytestconfig.getoption("questions")) if chosen is None else [chosen]
    different = []
    for seed in seeds:
        rng = random.Random(seed)
        snapshot, question, model = world_of(rng)
        made, names = anonymized(snapshot)
        which = QUESTIONS[seed % len(QUESTIONS)]
        ours, theirs = (asked(one, question, model, became, which) for one, became in ((snapshot, {}), (made, names)))
        if plain(ours) != with_old_names(theirs, names):
            different.append(f"--seed {seed} ({which}): {plain(ours)}\n{with_old_names(theirs, names)}")
    assert not different, "\n\n".join(different)
