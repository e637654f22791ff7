"""The tables of custom resources: the columns that their CustomResourceDefinitions say."""

from datetime import datetime
from typing import Any

from berth_cluster.apimachinery.errors import as_text
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.schema import OBJECT_META, description
from berth_cluster.custom import paths
from berth_cluster.custom.version import AGE, CustomVersion
from berth_cluster.serving.tables import humanize
from berth_cluster.serving.tables.columns import NAME, Cell, Column


def custom_columns(version: CustomVersion) -> tuple[Column, ...]:
    """The name, and what the definition says; without that, the age."""
    name = NAME._replace(doc=description(OBJECT_META, "name"))
    return (name, *map(_column, version.columns))


def _column(column: Object) -> Column:
    kind, path = column["type"], column["jsonPath"]
    doc = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    if column is AGE:
        doc = description(OBJECT_META, "creationTimestamp")
    return Column(column["name"], _cell(kind, path), kind, column.get("format") or "", column.get("priority", 0), doc)


def _cell(kind: str, path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        try:
            value = next(iter(paths.find(obj, path)), None)
        except paths.PathError:  # what cannot be read here shows nothing
            return None
        if value is None:
            return None
        if kind == "string":
            return value if isinstance(value, str) else as_text(value)
        if kind == "date":
            return humanize.age(value, now) if isinstance(value, str) else None
        if isinstance(value, bool) or kind == "boolean":
            return value if kind == "boolean" and isinstance(value, bool) else None
        if isinstance(value, int | float):
            return int(value) if kind == "integer" else value
        return None

    return cell
