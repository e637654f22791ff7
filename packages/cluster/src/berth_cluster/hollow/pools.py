"""Pools of hollow nodes that are alike, as people describe them: a text of `--pool`, or a file of several.

    gpu:4,cpu=64,memory=512Gi,nvidia.com/gpu=8,zone=a,taint=dedicated=gpu:NoSchedule

In a file, the same stands as YAML; what may be repeated is a list, and labels may be a map.

    gpu: {nodes: 4, cpu: 64, nvidia.com/gpu: 8, zone: [a, b], label: {disk: ssd}, taint: "dedicated=gpu:NoSchedule"}
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from berth.api.quantity import QuantityError, parse
from berth.api.user_error import UserError
from berth_cluster.hollow.template import NodeTemplate, network_bits

POOL_LABEL = "node-pool"
MAX_NODES = 100_000
_AMOUNTS = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "ephemeral_storage"}
_KEYS = ("cpu", "memory", "pods", "ephemeral-storage", "zone", "label", "taint", "arch", "os")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)")


class PoolError(UserError):
    """A pool that cannot be made; the message says why."""


class NodePool(NamedTuple):
    """Nodes that are alike, and how many."""

    nodes: int
    template: NodeTemplate


def parse_pool(text: str, usual: NodeTemplate) -> NodePool:
    """The pool that a text describes; what it does not say is as usual."""
    head, *rest = text.split(",")
    name, _, count = head.partition(":")
    pairs = [(key, value) for key, _, value in (part.partition("=") for part in rest)]
    return _pool(name, count or "1", pairs, usual)


def read_pools(text: str, usual: NodeTemplate) -> list[NodePool]:
    """The pools of a YAML file."""
    try:
        document = msgspec.yaml.decode(text)
    except msgspec.DecodeError as error:
        raise PoolError(f"it is not YAML: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(one, dict) for one in document.values()):
        raise PoolError("it is no map of pools by name, each a map as in `gpu: {nodes: 4, cpu: 64}`")
    return [_pool(str(name), str(one.get("nodes", 1)), _pairs(one), usual) for name, one in document.items()]


def _pairs(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if isinstance(value, dict):
            yield from ((key, f"{name}={one}") for name, one in value.items())
        elif key != "nodes":
            yield from ((str(key), str(one)) for one in (value if isinstance(value, list) else [value]))


def _pool(name: str, count: str, pairs: Iterable[tuple[str, str]], usual: NodeTemplate) -> NodePool:
    if not _NAME.fullmatch(name):
        raise PoolError(f"{name!r} is no name of a pool: lower-case letters, digits and dashes")
    if not count.isdecimal() or int(count) > MAX_NODES:
        raise PoolError(f"pool {name}: {count!r} is no number of nodes")
    fields: dict[str, Any] = {"name_prefix": f"{name}-"}
    labels, extra, zones, taints = {POOL_LABEL: name}, dict(usual.extra_resources), list[str](), []
    for key, value in pairs:
        if key == "zone":
            zones.append(value)
        elif key == "label":
            label, _, text = value.partition("=")
            labels[label] = text
        elif key == "taint":
            taints.append(_taint(name, value))
        elif key == "pods" and value.isdecimal():
            fields[key] = int(value)
        elif key in ("arch", "os"):
            fields[key] = value
        elif key in _AMOUNTS or "/" in key:
            check_node_amount(f"pool {name}: {key}", value)
            if key in _AMOUNTS:
                fields[_AMOUNTS[key]] = value
            else:
                extra[key] = value
        else:
            known = ", ".join(_KEYS)
            raise PoolError(f"pool {name}: {key}={value} says nothing; there are {known}, and resources like a.com/gpu")
    fields |= {"labels": {**usual.labels, **labels}, "taints": tuple(taints), "extra_resources": extra}
    return NodePool(int(count), msgspec.structs.replace(usual, **fields, **({"zones": tuple(zones)} if zones else {})))


def _taint(pool: str, text: str) -> dict[str, str]:
    found = _TAINT.fullmatch(text)
    if found is None:
        raise PoolError(f"pool {pool}: taint={text} is no KEY[=VALUE]:EFFECT with one of Kubernetes' three effects")
    return {name: one for name, one in found.groupdict().items() if one}


def check_node_amount(what: str, text: str) -> None:
    """Refuse an amount of a resource that no node can have. Raises `PoolError`."""
    try:
        is_enough = parse(text) > 0
    except QuantityError as error:
        raise PoolError(f"{what}: {error}") from None
    if not is_enough:
        raise PoolError(f"{what}={text}: a node needs more than nothing")


def side_by_side(pools: Sequence[NodePool]) -> list[NodePool]:
    """The pools with addresses of their own; names are told apart by the pools' own names."""
    bits = max((network_bits(pool.template.pods) for pool in pools), default=0)
    placed, first = [], 0
    for pool in pools:
        template = msgspec.structs.replace(pool.template, first_address=first, pod_network_bits=bits)
        placed.append(pool._replace(template=template))
        first += pool.nodes
    return placed
