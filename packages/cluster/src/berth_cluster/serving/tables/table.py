"""Turns objects into `meta.k8s.io/v1` Tables; called by the server for `kubectl get`."""

from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, EVENTS, NEW_EVENTS, ResourceKey, ResourceType
from berth_cluster.apimachinery.schema import description, find_message, message, type_name
from berth_cluster.custom.version import CustomType
from berth_cluster.serving.responses import metadata_only
from berth_cluster.serving.tables.columns import CREATED_AT, NAME, Column
from berth_cluster.serving.tables.custom import custom_columns
from berth_cluster.serving.tables.kinds import COLUMNS

_ADDED = "deprecated.daemonset.template.generation"
# What is shown in another version than it is stored in has the columns of the stored one.
_DESCRIBED_BY: MappingProxyType[ResourceKey, ResourceKey] = MappingProxyType({NEW_EVENTS.key: EVENTS.key})


def make_table(
    kind: ResourceType, objects: list[Object], meta: dict[str, Any], include: str, now: datetime
) -> dict[str, Any]:
    """The Table of some objects; `include` says how much of each object goes along."""
    columns = custom_columns(kind.custom) if isinstance(kind, CustomType) else _columns(kind.key)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            {"name": column.name, "type": column.type, "format": column.format, "description": column.doc,
             "priority": column.priority}
            for column in columns
        ],
        "rows": [_row(obj, columns, include, now) for obj in objects],
    }  # fmt: skip


@lru_cache(maxsize=128)
def _columns(key: ResourceKey) -> tuple[Column, ...]:
    """The columns of a resource, with what the documentation says of them."""
    kind = BY_KEY[_DESCRIBED_BY.get(key, key)]
    name = type_name(kind.group, kind.version, kind.kind)
    return tuple(column._replace(doc=_description(name, column.doc)) for column in COLUMNS.get(key, (NAME, CREATED_AT)))


def _description(type_of_kind: str, doc: str) -> str:
    """What the documentation says of a path in a kind; a sentence is its own description."""
    if " " in doc or not doc:
        return doc
    holder, name = "", type_of_kind
    field = ""
    for part in doc.split("."):
        found = message(name).fields.get(part) if find_message(name) is not None else None
        if found is None:  # a key in a map
            break
        holder, field, name = name, part, found.type
    return description(holder, field)


def _metadata(obj: Object) -> dict[str, Any]:
    """The metadata in a row, which upstream takes from before an object has the version that is shown."""
    meta: dict[str, Any] = obj["metadata"]
    annotations = meta.get("annotations") or {}
    if _ADDED not in annotations:
        return meta
    kept = {key: value for key, value in annotations.items() if key != _ADDED}
    return {key: kept if key == "annotations" else value for key, value in meta.items() if kept or key != "annotations"}


def _row(obj: Object, columns: tuple[Column, ...], include: str, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include in ("", "Metadata"):
        row["object"] = metadata_only(_metadata(obj))
    elif include != "None":
        raise bad_request(f'includeObject: "{include}" must be None, Metadata or Object')
    return row
