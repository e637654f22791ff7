"""A slow API server, for those who want to see what others make of it: each request waits before it is answered.

How long says a ConfigMap, which `berth chaos slow-api` writes; without it, none waits. Health checks never do.
"""

import asyncio

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType, resource_of
from berth_cluster.storage.store import Store

NAMESPACE, NAME, KEY = "kube-system", "berth-chaos", "slow-api-ms"
LONGEST_S = 60.0


class ApiDelay:
    """How long requests wait, in seconds, as the cluster's ConfigMap says."""

    __slots__ = ("seconds",)

    def __init__(self, store: Store) -> None:
        self._follow(store.find(resource_of("ConfigMap"), NAMESPACE, NAME))
        store.subscribe(self._on_change)

    async def wait(self) -> None:
        """Let the time pass that a request waits."""
        if self.seconds:
            await asyncio.sleep(self.seconds)

    def _on_change(self, change_type: str, resource: ResourceType, obj: Object, _old: Object | None) -> None:
        place = (resource.kind, obj["metadata"].get("namespace"), obj["metadata"]["name"])
        if place == ("ConfigMap", NAMESPACE, NAME):
            self._follow(None if change_type == "DELETED" else obj)

    def _follow(self, config_map: Object | None) -> None:
        text = str(((config_map or {}).get("data") or {}).get(KEY, ""))
        self.seconds = min(int(text) / 1000, LONGEST_S) if text.isdecimal() and len(text) < 10 else 0.0
