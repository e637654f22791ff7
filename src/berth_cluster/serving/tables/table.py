"""Turns objects into `meta.k8s.io/v1` Tables; called by the server for `kubectl get`."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceKey, ResourceType
from berth_cluster.serving.tables import others, workloads
from berth_cluster.serving.tables.columns import AGE, CREATED_AT, NAME, Column
from berth_cluster.serving.tables.custom import custom_columns, described
from berth_cluster.serving.tables.pods import pod_columns

Columns = list[Column]


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
        ("", "replicationcontrollers"): workloads.replication_controller_columns,
        ("", "secrets"): others.secret_columns,
        ("", "serviceaccounts"): others.service_account_columns,
        ("", "services"): others.service_columns,
        ("apps", "daemonsets"): workloads.daemon_set_columns,
        ("apps", "deployments"): workloads.deployment_columns,
        ("apps", "replicasets"): workloads.replica_set_columns,
        ("apps", "statefulsets"): workloads.stateful_set_columns,
        ("batch", "cronjobs"): workloads.cron_job_columns,
        ("batch", "jobs"): workloads.job_columns,
        ("coordination.k8s.io", "leases"): others.lease_columns,
        ("events.k8s.io", "events"): others.event_columns,
        ("policy", "poddisruptionbudgets"): others.disruption_budget_columns,
        ("resource.k8s.io", "deviceclasses"): _name_and_age,
        ("resource.k8s.io", "resourceclaims"): others.resource_claim_columns,
        ("resource.k8s.io", "resourceclaimtemplates"): _name_and_age,
        ("resource.k8s.io", "resourceslices"): others.resource_slice_columns,
        ("scheduling.k8s.io", "podgroups"): _name_and_age,
        ("scheduling.k8s.io", "priorityclasses"): others.priority_class_columns,
        ("scheduling.k8s.io", "workloads"): _name_and_age,
        ("storage.k8s.io", "csinodes"): others.csi_node_columns,
        ("storage.k8s.io", "storageclasses"): others.storage_class_columns,
        ("storage.k8s.io", "volumeattachments"): others.volume_attachment_columns,
    }
)


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
        "columnDefinitions": [
            _definition(column, about) for column, about in zip(columns, _descriptions(kind, len(columns)), strict=True)
        ],
        "rows": [_row(obj, columns, include, now) for obj in objects],
    }


def _descriptions(kind: ResourceType, number: int) -> list[str]:
    if kind.custom is None:
        return [""] * number
    return ["", *(described(column) for column in kind.custom.columns)]


def _definition(column: Column, description: str) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": description,
        "priority": column.priority,
    }


def _row(obj: Object, columns: tuple[Column, ...], include: str, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include in ("", "Metadata"):
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    elif include != "None":
        raise bad_request(f'includeObject: "{include}" must be None, Metadata or Object')
    return row
