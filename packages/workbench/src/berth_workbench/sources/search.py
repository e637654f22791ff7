"""One search for everything: nodes, pods, workloads and namespaces whose name contains the typed text."""

from collections.abc import AsyncIterator
from urllib.parse import quote, urlencode

import msgspec

from berth_workbench.sources.source import Source

MOST = 20


class SearchHit(msgspec.Struct, frozen=True, rename="camel"):
    """Something that was found, and the page that shows it."""

    kind: str
    name: str
    href: str


async def search(source: Source, text: str, most: int = MOST) -> list[SearchHit]:
    """Return what has this name, the best first: whole names, then beginnings, then the rest. Raises `SourceError`.

    A workload is also found as `deployment/web`.
    """
    wanted = text.strip().lower()
    if not wanted:
        return []
    found = {
        (hit.kind, hit.name): hit
        async for hit in _named(source, wanted)
        if wanted in hit.name.lower() or wanted in f"{hit.kind}/{hit.name.rpartition('/')[2]}".lower()
    }

    def rank(hit: SearchHit) -> tuple[int, int, str]:
        name = hit.name.lower()
        last = name.rpartition("/")[2]
        place = 0 if wanted in (name, last) else 1 if name.startswith(wanted) or last.startswith(wanted) else 2
        return place, len(name), name

    return sorted(found.values(), key=rank)[:most]


async def _named(source: Source, wanted: str) -> AsyncIterator[SearchHit]:
    nodes, pods, pending, recent = (
        await source.nodes(), await source.pods(wanted), await source.pending(), await source.recent(),
    )  # fmt: skip
    for name in nodes.names:
        yield SearchHit("Node", name, f"/map?{urlencode({'node': name})}")
    for pool in nodes.pools.names:
        if pool:
            yield SearchHit("Pool", pool, f"/nodes?{urlencode({'find': pool})}")
    workloads = set[tuple[str, str]]()
    for at, name in enumerate(pods.names):
        namespace = pods.namespaces.names[pods.namespaces.of[at]]
        yield _pod(f"{namespace}/{name}")
        if workload := pods.workloads.names[pods.workloads.of[at]]:
            workloads.add((namespace, workload))
    for namespace, workload in workloads:
        kind, _, name = workload.partition("/")
        path = "/".join(quote(part, safe="") for part in (kind, namespace, name))
        yield SearchHit(kind, f"{namespace}/{name}", f"/workloads/{path}")
    for group in pending.groups:
        for key in group.named:
            yield _pod(key)
    for line in recent:
        yield _pod(line.pod)


def _pod(key: str) -> SearchHit:
    return SearchHit("Pod", key, f"/pods/{'/'.join(quote(part, safe='') for part in key.split('/', 1))}")
