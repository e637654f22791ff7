"""Every public class has a name of its own: who reads it, or searches for it, finds one thing."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"

# Names that two classes still share, with the files that define them. Nothing is to be added here: give one of the two
# another name, and take it off the list.
SHARED: dict[str, tuple[str, ...]] = {
    "Constraint": ("berth/plugins/dra/constraints.py", "berth/plugins/pod_topology_spread/constraints.py"),
    "FilterState": ("berth/plugins/inter_pod_affinity/filtering.py", "berth/plugins/pod_topology_spread/filtering.py"),
    "Found": ("berth/plugins/dra/allocator.py", "berth/plugins/preemption/search.py"),
    "Hints": (
        "berth/plugins/dra/hints.py",
        "berth/plugins/inter_pod_affinity/hints.py",
        "berth/plugins/pod_topology_spread/hints.py",
    ),
    "NodeAffinity": ("berth/api/pod.py", "berth/plugins/node_affinity.py"),
    "PodState": ("berth/plugins/dra/state.py", "berth/state/cache.py"),
    "RequestedToCapacityRatio": (
        "berth/plugins/legacy/node_resources_allocated.py",
        "berth/plugins/resources/scoring.py",
    ),
    "ScoreState": ("berth/plugins/inter_pod_affinity/scoring.py", "berth/plugins/pod_topology_spread/scoring.py"),
    "Strategy": ("berth/plugins/resources/scoring.py", "berth/queue/waking.py"),
    "Taken": ("berth/plugins/dra/allocator.py", "berth/plugins/volumes/assuming.py"),
    "UseColumn": ("berth/plugins/legacy/resource_uses.py", "berth/plugins/resources/scoring.py"),
}


def _public_classes() -> dict[str, list[str]]:
    """Where the public classes at the top level of modules are defined, by name."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8"), str(path)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return dict(found)


def test_the_classes_are_found() -> None:
    classes = _public_classes()
    assert classes["Store"] == ["berth_cluster/storage/store.py"]
    assert len(classes) > 300


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: files for name, files in _public_classes().items() if len(files) > len(SHARED.get(name, ("",)))}
    assert not shared, f"give all but one of each another name: {shared}"


def test_the_list_of_shared_names_only_shrinks() -> None:
    classes = _public_classes()
    mended = [name for name, files in SHARED.items() if len(classes.get(name, ())) < len(files)]
    assert not mended, f"no longer shared by as many; correct the list above: {mended}"
