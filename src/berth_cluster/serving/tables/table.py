"""Turns objects into `meta.k8s.io/v1` Tables; called by the server for `kubectl get`."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, EVENTS, NEW_EVENTS, ResourceKey, ResourceType
from berth_cluster.apimachinery.schema import description, find_message, message, type_name
from berth_cluster.serving.tables import others, workloads
from berth_cluster.serving.tables.columns import AGE, CREATED_AT, NAME, Column
from berth_cluster.serving.tables.custom import custom_columns, custom_definitions
from berth_cluster.serving.tables.pods import pod_columns

Columns = list[Column]
_ADDED = "deprecated.daemonset.template.generation"


def _name_and_age() -> Columns:
    return [NAME, AGE]


_COLUMNS: MappingProxyType[ResourceKey, Callable[[], Columns]] = MappingProxyType(
    {
        ("", "configmaps"): others.config_map_columns,
        ("", "endpoints"): others.endpoints_columns,
        ("", "events"): others.event_columns,
        ("", "namespaces"): others.namespace_columns,
        ("", "nodes"): others.node_columns,
        ("", "persistentvolumeclaims"): others.claim_columns,
        ("", "persistentvolumes"): others.volume_columns,
        ("", "pods"): pod_columns,
        ("", "resourcequotas"): others.quota_columns,
        ("", "replicationcontrollers"): workloads.replication_controller_columns,
        ("", "secrets"): others.secret_columns,
        ("", "serviceaccounts"): _name_and_age,
        ("", "services"): others.service_columns,
        ("apps", "controllerrevisions"): workloads.revision_columns,
        ("apps", "daemonsets"): workloads.daemon_set_columns,
        ("apps", "deployments"): workloads.deployment_columns,
        ("apps", "replicasets"): workloads.replica_set_columns,
        ("apps", "statefulsets"): workloads.stateful_set_columns,
        ("autoscaling", "horizontalpodautoscalers"): workloads.autoscaler_columns,
        ("batch", "cronjobs"): workloads.cron_job_columns,
        ("batch", "jobs"): workloads.job_columns,
        ("coordination.k8s.io", "leases"): others.lease_columns,
        ("discovery.k8s.io", "endpointslices"): others.endpoint_slice_columns,
        ("events.k8s.io", "events"): others.event_columns,
        ("policy", "poddisruptionbudgets"): others.disruption_budget_columns,
        ("rbac.authorization.k8s.io", "clusterrolebindings"): others.cluster_role_binding_columns,
        ("rbac.authorization.k8s.io", "rolebindings"): others.role_binding_columns,
        ("resource.k8s.io", "deviceclasses"): _name_and_age,
        ("resource.k8s.io", "resourceclaims"): others.resource_claim_columns,
        ("resource.k8s.io", "resourceclaimtemplates"): _name_and_age,
        ("resource.k8s.io", "resourceslices"): others.resource_slice_columns,
        ("scheduling.k8s.io", "podgroups"): _name_and_age,
        ("scheduling.k8s.io", "priorityclasses"): others.priority_class_columns,
        ("scheduling.k8s.io", "workloads"): _name_and_age,
        ("storage.k8s.io", "csidrivers"): others.csi_driver_columns,
        ("storage.k8s.io", "csinodes"): others.csi_node_columns,
        ("storage.k8s.io", "storageclasses"): others.storage_class_columns,
        ("storage.k8s.io", "volumeattachments"): others.volume_attachment_columns,
    }
)
# What is shown in another version than it is stored in has the columns of the stored one.
_DESCRIBED_BY: MappingProxyType[ResourceKey, ResourceKey] = MappingProxyType({NEW_EVENTS.key: EVENTS.key})


@lru_cache(maxsize=128)
def columns_of(key: ResourceKey) -> tuple[Column, ...]:
    """The columns of a resource; one without any of its own shows when its objects were created."""
    make = _COLUMNS.get(key)
    return tuple(make()) if make is not None else (NAME, CREATED_AT)


def make_table(
    kind: ResourceType, objects: list[Object], meta: dict[str, Any], include: str, now: datetime
) -> dict[str, Any]:
    """The Table of some objects; `include` says how much of each object goes along."""
    columns = columns_of(kind.key) if kind.custom is None else custom_columns(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": custom_definitions(kind) if kind.custom is not None else list(_definitions(kind.key)),
        "rows": [_row(obj, columns, include, now) for obj in objects],
    }


@lru_cache(maxsize=128)
def _definitions(key: ResourceKey) -> tuple[dict[str, Any], ...]:
    kind = BY_KEY[_DESCRIBED_BY.get(key, key)]
    return tuple(
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": _description(type_name(kind.group, kind.version, kind.kind), column.doc),
            "priority": column.priority,
        }
        for column in columns_of(key)
    )


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
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": _metadata(obj),
        }
    elif include != "None":
        raise bad_request(f'includeObject: "{include}" must be None, Metadata or Object')
    return row
