"""Random questions about random clusters: the end of each answer is held against single decisions and plain counting.

`oracle.py` says what must hold. `--questions 1000` asks more of them; a failure names its seed,
which `--seed` asks again alone.
"""

import random

from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.planning.oracle import differences
from packages.workbench.tests.planning.questions import World, random_question


def asked(seed):
    """Ask one question; return it, the answer, and what is wrong with it."""
    rng = random.Random(seed)
    world = World(rng)
    question = random_question(rng, world)
    snapshot = Snapshot([Document(each["kind"], each, "a world") for each in world.manifests(rng)])
    cluster = SimulatedCluster(snapshot.structs())
    run = WhatIfRun(Site(cluster, snapshot.documents))
    result = run.run([parse_flag(step, text) for step, text in question])
    return question, result, list(differences(world, question, cluster, result))


def test_every_answer_holds_against_the_oracle(pytestconfig):
    chosen = pytestconfig.getoption("seed")
    seeds = range(pytestconfig.getoption("questions")) if chosen is None else [chosen]
    wrong, with_pending = [], 0
    for seed in seeds:
        question, result, found = asked(seed)
        with_pending += bool(result.unplaced)
        flags = " ".join(f"--{step} {text}" for step, text in question)
        wrong += [f"--seed {seed}: {flags}: {each}" for each in found]
    assert not wrong, "\n".join(wrong)
    if chosen is None:  # a question that leaves nobody without a node asks little
        assert with_pending > len(seeds) / 4
