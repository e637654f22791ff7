"""Objects with much in one list or map come and go, and what they said is forgotten: for each list and map there is.

The lives are made from the structs of `berth.api` (`tests/growth/schema.py`), and each gives its entries names of their
own. Stores are bounded in how much their keys say; here each keeps one thing only. So whatever still holds the names of
a life after two more of the same sort is bounded in number at best, by however many things of whatever size.
"""

from collections import defaultdict
from types import MappingProxyType

import pytest

from berth.api.codec import KINDS
from berth.api.shared_parts import sharing_of
from berth.core.builders import make_pod
from berth.framework.effects import Answer
from tests.growth.bounds import lower_numbers, lower_sizes_of_parts
from tests.growth.held import reached_from
from tests.growth.lives import cluster
from tests.growth.schema import FIELDS, NAME, SCENES, Cluster, Field, Names, grown, life

ENTRIES = 10
LIVES = 3
NUMBER = 3
"""How many small things each store may keep; some are names, such as keys of labels."""
NAMES_KEPT = 5

CANNOT_BE_READ = ("matchFields", "[]", "values")
"""No field selector may have several values: such a pod ends in an error."""


def standing():
    """A cluster that stays, with a pod that prefers others, and whose API server refuses all writes of plugins."""
    found = cluster()
    zone, beside = "topology.kubernetes.io/zone", {"app": "beside"}
    found.put(make_pod("carrier").node("node-1").prefer_pod_affinity(3, zone, beside).request(cpu="10m"))
    found.answer_api = lambda call: Answer(0, None, "refused")
    made = Cluster(found, MappingProxyType({kind: sharing_of(kind) for kind in KINDS}))
    lower_sizes_of_parts()
    return made


def names_held(standing_cluster):
    """Return by life the names of its entries that are still held somewhere, and through what."""
    held = defaultdict(dict)
    for one, way in reached_from(standing_cluster.found.core, standing_cluster.share):
        if isinstance(one, str | bytes):
            text = one if isinstance(one, str) else one.decode(errors="replace")
            for number, name in NAME.findall(text):
                held[int(number)].setdefault(name, way)
    return held


def check_decisions(standing_cluster, field):
    """Check that pods were tried, and that none ended in an error that its unlikely values have caused."""
    decisions = standing_cluster.found.core.trace.values()
    assert decisions, f"{field}: no pod was tried"
    wrong = [each.message for each in decisions if each.outcome == "error"]
    assert not wrong or field.path[-3:] == CANNOT_BE_READ, f"{field}: give it a value in SPECIAL: {wrong}"


@pytest.mark.parametrize("kind", KINDS)
def test_what_objects_say_is_forgotten(kind, monkeypatch):
    lower_numbers(monkeypatch, NUMBER)
    made, fields = standing(), [field for field in FIELDS if field.kind == kind]
    for number in range(LIVES * len(fields)):
        life(made, fields[number // LIVES], number, ENTRIES)
        check_decisions(made, fields[number // LIVES])
    held = names_held(made)
    of_first_lives = {str(field): held.get(place * LIVES, {}) for place, field in enumerate(fields)}
    kept = {field: set(names.values()) for field, names in of_first_lives.items() if len(names) > NAMES_KEPT}
    assert not kept, f"names of entries are held after {LIVES} lives: {kept}"


@pytest.mark.parametrize("field", [Field("Pod", ("spec", "tolerations")), Field("ResourceSlice", ("spec", "devices"))])
def test_what_is_there_is_found(field):
    made, names = standing(), Names(7)
    made.put(field, grown(SCENES[field.kind].document(7), field, ENTRIES, names))
    assert len(names_held(made)[7]) >= ENTRIES


def test_lists_and_maps_are_found_at_any_depth():
    assert {
        Field("Pod", ("metadata", "labels")),
        Field("Pod", ("spec", "containers")),
        Field("Pod", ("spec", "containers", "[]", "resources", "requests")),
        Field("Node", ("status", "images", "[]", "names")),
        Field("ResourceSlice", ("spec", "devices", "[]", "consumesCounters", "[]", "counters")),
    } <= set(FIELDS)
