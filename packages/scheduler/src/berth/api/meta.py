"""The parts that every API object shares: metadata, owner references, label selectors as written in objects.

All structs of `berth.api` are frozen, have snake_case fields for camelCase JSON, and hold only the fields that
scheduling reads; other fields are skipped while decoding.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from berth.api.read_only import EMPTY

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A number whose Go field is an int32: Kubernetes refuses to read one that is out of range."""


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all API structs: immutable, camelCase in JSON."""


class OwnerReference(Struct, frozen=True):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Struct, frozen=True):
    """metadata of any object; timestamps stay RFC 3339 text until somebody needs them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class LabelSelectorRequirement(Struct, frozen=True):
    """One entry of matchExpressions."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """metav1.LabelSelector: every label of match_labels and every expression must hold; empty selects everything."""

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(Struct, frozen=True):
    """A reference to an object anywhere."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Condition(Struct, frozen=True):
    """An entry of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0
