"""Upgrade plans of small random clusters, against upgrading nodes one by one: who can go alone goes with others, too.

`mixed_worlds` has what may be in the way. Here many pods belong to their nodes, as pods with local volumes do.
"""

import random

from berth.framework.setup import Setup
from berth_workbench.planning.upgrade.search import UpgradeRequest, UpgradeSearch
from berth_workbench.simulation.site import Site
from packages.workbench.tests.planning.mixed_worlds import HOSTNAME, MixedWorld, registry, worlds


class WorldWithPinnedPods(MixedWorld):
    """A mixed world in which the pods of some workloads fit on their own nodes only."""

    def __init__(self, seed):
        super().__init__(seed)
        rng = random.Random(-seed)
        pinned = {name for name in "abcdefgh" if rng.random() < 0.4}
        for pod in self.pods:
            if pod["metadata"]["labels"]["app"] in pinned and pod["spec"].get("nodeName"):
                pod["spec"]["nodeSelector"] = {HOSTNAME: pod["spec"]["nodeName"]}


def left_out(plan):
    return {each.node for each in plan.blocked}


@worlds(12)
def test_a_node_that_can_be_upgraded_alone_is_upgraded_with_others(seeds):
    """Before the others or after them: a plan's order may be none that each of them can go in."""
    together = 0
    for seed in seeds:
        world = WorldWithPinnedPods(seed)
        one_by_one = None
        for at_once in (1, 2, 3):
            story = f"seed {seed}, {at_once} at once"
            site = Site.of(world.snapshot(), Setup(world.config, registry()))
            plan = UpgradeSearch(site, UpgradeRequest(at_once=at_once)).plan()
            assert plan.upgraded + len(plan.blocked) == len(world.nodes), story
            one_by_one = left_out(plan) if one_by_one is None else one_by_one
            assert left_out(plan) <= one_by_one, story
            for name in left_out(plan):
                alone = UpgradeSearch(site, UpgradeRequest(nodes=(name,), at_once=1)).plan()
                assert left_out(alone), f"{story}: {name}"
            together += any(len(step.nodes) > 1 for step in plan.steps if step.action == "upgrade")
    assert together > len(seeds) / 2
