"""The aggregation controller: a ClusterRole with an aggregationRule has the rules of all those that it selects.

So `admin`, `edit` and `view` take in what others add to them by a label. Upstream:
pkg/controller/clusterroleaggregation.
"""

from berth_cluster.apimachinery.meta import Object, key_of, labels_of
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange

KIND = "ClusterRole"


class RoleAggregation(KeyedController):
    """The rules of aggregated ClusterRoles."""

    __slots__ = ()

    name = "clusterrole-aggregation-controller"
    kinds = frozenset({KIND})

    def handle(self, change: ObjectChange) -> None:
        """Look at all aggregated roles when any role has changed."""
        for role in self.index.all_of(KIND):
            if role.get("aggregationRule"):
                self.look_at(role)

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring the rules of one role up to date."""
        selectors = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        compiled = [compile_json(selector, key_of(obj)) for selector in selectors]
        rules = []
        for other in sorted(self.index.all_of(KIND), key=key_of):
            if other is not obj and any(selector.matches(labels_of(other)) for selector in compiled):
                rules += [rule for rule in other.get("rules") or [] if rule not in rules]
        if rules != (obj.get("rules") or []):
            self.client.update(KIND, {**obj, "rules": rules})
