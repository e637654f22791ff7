"""Assignments as the API writes them, and a forest beside its copy."""

from berth_kueue.topology.placing import DomainUsage, TopologyAssignment, read_assignment
from packages.kueue.tests.topology.worlds import HOST, forest, node


def test_values_and_counts_may_be_told_once_for_all():
    """The two forms of each that apis/kueue/v1beta2 has for a slice of an assignment."""
    given = {
        "levels": ["rack", HOST],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [
                    {"universal": "r1"},
                    {"individual": {"prefix": "node-", "suffix": ".local", "roots": ["1", "2"]}},
                ],
                "podCounts": {"universal": 3},
            },
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "r2"}, {"universal": "other"}],
                "podCounts": {"individual": [1]},
            },
        ],
    }
    domains = ((("r1", "node-1.local"), 3), (("r1", "node-2.local"), 3), (("r2", "other"), 1))
    assert read_assignment(given) == TopologyAssignment(("rack", HOST), domains)


def test_what_is_done_to_a_copy_is_not_done_to_the_forest():
    world = forest([node("b", "r", 0), node("b", "r", 1)])
    world.add_usage("ns/a", {"tas": [DomainUsage(("b-r-0",), {"cpu": 3000}, 1)]})
    other = world.copy()
    other.remove_usage("ns/a")
    other.delete_node("b-r-1")
    four = [DomainUsage(("b-r-0",), {"cpu": 1000}, 4)]
    assert not world.snapshot().fits("tas", four) and other.snapshot().fits("tas", four)
    second = [DomainUsage(("b-r-1",), {"cpu": 1000}, 4)]
    assert world.snapshot().fits("tas", second) and not other.snapshot().fits("tas", second)
