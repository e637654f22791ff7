# %% [markdown]
# # How many more pods fit, and on which nodes would one more pay?
#
# A notebook in the form of a script: editors show each `# %%` as a cell, and Python runs the whole.
# It asks the scheduler itself, so affinity, spreading and taints count as they would in the cluster.
#
#     python examples/capacity.py

# %% The cluster: three zones, and one node that is reserved by a taint.
from collections import Counter

import berth
from berth.testing import make_node, make_pod

ZONES = {"a": 3, "b": 2, "c": 1}


def nodes():
    """Six nodes of 8 CPUs in zones of different size."""
    for zone, count in ZONES.items():
        for number in range(count):
            yield make_node(f"{zone}{number}").capacity(cpu="8", memory="32Gi").zone(zone)
    yield make_node("reserved").capacity(cpu="64", memory="256Gi").zone("c").taint("team", "ml")


def replica(number):
    """One of many replicas that are to be spread evenly over the zones."""
    made = make_pod(f"web-{number:03}").request(cpu="2", memory="1Gi").label("app", "web")
    return made.spread("topology.kubernetes.io/zone", {"app": "web"}, max_skew=4)


# %% How many replicas fit as the cluster is?
def fill(*more_nodes):
    """Place replicas until one does not fit; return where they went, and why the last did not."""
    scheduler = berth.Scheduler()
    scheduler.add(*nodes(), *more_nodes)
    number = 0
    while (result := scheduler.schedule(replica(number))).node:
        number += 1
    placed = Counter(node for node in scheduler.placements.values() if node)
    return placed, result.message


placed, why = fill()
print(f"{placed.total()} replicas fit: {dict(sorted(placed.items()))}")
print(f"the next does not: {why}")

# %% In which zone does one more node help most?
for zone in ZONES:
    more, why = fill(make_node(f"{zone}-new").capacity(cpu="8", memory="32Gi").zone(zone))
    print(f"one more node in zone {zone}: {more.total() - placed.total()} more replicas")
