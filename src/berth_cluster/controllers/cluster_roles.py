"""The aggregation controller: a ClusterRole with an aggregationRule has the rules of all those that it selects.

So `admin`, `edit` and `view` take in what others add to them by a label. Upstream:
pkg/controller/clusterroleaggregation.
"""

from berth_cluster.apimachinery.meta import key_of, labels_of
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange

KIND = "ClusterRole"


class RoleAggregation(KeyedController):
    """The rules of aggregated ClusterRoles."""

    __slots__ = ("_client",)

    name = "clusterrole-aggregation-controller"
    kinds = frozenset({KIND})

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def handle(self, change: ObjectChange) -> None:
        """Look at all aggregated roles when any role has changed."""
        for role in self._client.index.all_of(KIND):
            if role.get("aggregationRule"):
                self.queue.add(key_of(role))

    def sync(self, key: str, now_s: float) -> None:
        """Bring the rules of one role up to date."""
        role = self._client.index.get(KIND, key)
        if role is None:
            return
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        compiled = [compile_json(selector, key) for selector in selectors]
        rules = []
        for other in sorted(self._client.index.all_of(KIND), key=key_of):
            if key_of(other) != key and any(selector.matches(labels_of(other)) for selector in compiled):
                rules += [rule for rule in other.get("rules") or [] if rule not in rules]
        if rules != (role.get("rules") or []):
            self._client.update(KIND, {**role, "rules": rules})
