"""Objects of custom resources: pruned, given defaults, and held against their schema and its rules."""

from berth_cluster.apimachinery.errors import FieldErrors, forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.custom.version import CustomType
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy


class CustomObjectStrategy(RESTStrategy):
    """The objects of one version of a custom resource."""

    __slots__ = ("_kind", "_version")

    def __init__(self, kind: CustomType) -> None:
        super().__init__(check=lambda obj, _field, errors: kind.custom.check(obj, None, errors))
        self._kind = kind
        self._version = kind.custom

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Prune and set defaults; a status that has a subresource is not given at first."""
        if self._version.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self._kind.plural, self._kind.group, obj["metadata"]["name"], why)
        if self._kind.has_status:
            obj.pop("status", None)
        self._version.complete(obj)

    def prepare_update(self, new: Object, _old: Object, _subresource: str, _view: ClusterView) -> None:
        """Prune and set defaults."""
        self._version.complete(new)

    def validate_update(
        self, kind: ResourceType, new: Object, old: Object, _subresource: str, _empties: Object | None = None
    ) -> None:
        """The schema, with the former object for rules about changes; for the status, too."""
        errors = FieldErrors()
        names.check_labels(new["metadata"].get("labels"), "metadata.labels", errors)
        names.check_annotations(new["metadata"].get("annotations"), "metadata.annotations", errors)
        self._version.check(new, old, errors)
        errors.raise_for(kind.kind, kind.group, new["metadata"]["name"])
