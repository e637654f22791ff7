"""A new place for the pods of a failed node: the rest of the assignment stays as it is.

Where the workload required one domain, the pods stay in it; where slices are broken, in the slice's domain.
Source: kubernetes-sigs/kueue, pkg/cache/scheduler/tas_flavor_snapshot.go (findReplacementAssignment), KEP-2724.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from berth_kueue.topology.placing import PodSetPlacing, SliceLayer, TopologyAssignment, TopologyWish, wish_of
from berth_kueue.topology.search import NoRoomError, slice_size
from berth_kueue.topology.tree import TopologyTree

Domains = tuple[tuple[tuple[str, ...], int], ...]
Search = Callable[[PodSetPlacing, str], Mapping[str, TopologyAssignment | None]]
"""Places a pod set within a domain."""


def replacement_of(
    tree: TopologyTree, placing: PodSetPlacing, before: TopologyAssignment, node: str, search: Search
) -> tuple[TopologyAssignment, TopologyAssignment]:
    """Return the whole new assignment, and what of it replaces the node. Raises `NoRoomError`."""
    kept = tuple(each for each in before.domains if each[0][-1] != node)
    count = next((count for values, count in before.domains if values[-1] == node), 0)
    for values, _ in kept:
        if ",".join(values) not in tree.leaves:
            raise NoRoomError(
                "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale "
                f"domain {values[0]}"
            )
    wish = wish_of(placing.request)
    size = slice_size(wish)
    within = _domain_to_stay_in(tree, placing, wish, count, kept)
    request = placing.request
    if wish.layers and within and count % size:
        # The innermost slices that the pods fill; a slice that the node had a part of is mended pod by pod.
        layer = next((layer for layer in reversed(wish.layers) if count % layer.size == 0), None)
        request = {key: value for key, value in request.items() if key not in _SLICES}
        if layer is not None:
            request |= {"podSetSliceRequiredTopology": layer.level, "podSetSliceSize": layer.size}
    added = search(msgspec.structs.replace(placing, request=request, count=count), within)[placing.name]
    if added is None or not added.domains:
        raise NoRoomError(f"cannot find replacement assignment for unhealthy node: {node}")
    return TopologyAssignment(added.levels, _merged(tree, added.domains + kept)), added


_SLICES = ("podSetSliceRequiredTopology", "podSetSliceSize", "podsetSliceRequiredTopologyConstraints")


def _merged(tree: TopologyTree, domains: Domains) -> Domains:
    lowest = tree.by_level[-1]
    counts: Counter[tuple[str, ...]] = Counter()
    for values, count in domains:
        counts[values] += count
    return tuple(sorted(counts.items(), key=lambda each: ",".join(lowest[",".join(each[0])].values)))


def _domain_to_stay_in(
    tree: TopologyTree, placing: PodSetPlacing, wish: TopologyWish, count: int, kept: Domains
) -> str:
    """The id of the domain that the pods may not leave; empty where they may go anywhere."""
    level = wish.level(tree.levels[0], tree.levels[-1]) or (tree.levels[-1] if placing.is_implied else "")
    at = tree.level_index(level)
    if at < 0 or not kept:
        return ""
    if wish.layers and count % wish.layers[0].size:
        broken = next(layer for layer in reversed(wish.layers) if count % layer.size)
        return _incomplete_slice(tree, kept, count, broken)
    if not wish.required:
        return ""
    leaf = tree.by_level[-1].get(",".join(kept[0][0]))
    return leaf.above(len(tree.levels) - 1 - at).id if leaf is not None else ""


def _incomplete_slice(
    tree: TopologyTree, kept: Sequence[tuple[tuple[str, ...], int]], count: int, layer: SliceLayer
) -> str:
    """The domain in which the missing pods would make whole slices again."""
    at = tree.level_index(layer.level)
    if at < 0:
        return ""
    pods: Counter[str] = Counter()
    for values, there in kept:
        leaf = tree.by_level[-1].get(",".join(values))
        if leaf is not None:
            pods[leaf.above(len(tree.levels) - 1 - at).id] += there
    return next((id_ for id_, there in pods.items() if (there + count) % layer.size == 0), "")
