"""Building blocks of tables: a column is a heading and a function from object (and time) to cell."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from berth_cluster.apimachinery.meta import Object
from berth_cluster.serving.tables import humanize

Cell = Callable[[Object, datetime], Any]


class Column(NamedTuple):
    """One column; `priority` 1 is shown only with `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    doc: str = ""  # what describes it: a path in the object, whose documentation is shown, or a sentence


def at(path: str, default: Any = "") -> Cell:
    """The value at a dotted path."""
    keys = path.split(".")

    def cell(obj: Object, _now: datetime) -> Any:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None or value == "" else value

    return cell


def text(name: str, path: str, default: Any = "", *, priority: int = 0) -> Column:
    """A column with the text at a path."""
    return Column(name, at(path, default), priority=priority, doc=path)


def number(name: str, path: str, default: int = 0, *, priority: int = 0) -> Column:
    """A column with the whole number at a path."""
    return Column(name, at(path, default), "integer", priority=priority, doc=path)


def shown(name: str, doc: str, cell: Callable[[Object], Any], kind: str = "string", *, priority: int = 0) -> Column:
    """A column computed from the object alone."""
    return Column(name, lambda obj, _now: cell(obj), kind, priority=priority, doc=doc)


def since(name: str, path: str) -> Column:
    """A column with the time since the moment at a path."""
    moment = at(path, None)
    return Column(name, lambda obj, now: humanize.age(moment(obj, now), now), doc=path)


NAME = Column("Name", at("metadata.name"), format="name", doc="metadata.name")
AGE = since("Age", "metadata.creationTimestamp")
CREATED_AT = Column("Created At", at("metadata.creationTimestamp"), "date", doc="metadata.creationTimestamp")


def containers_of(path: str) -> tuple[Column, Column]:
    """The wide columns with a template's containers and images."""
    template = at(path, {})

    def joined(field: str) -> Cell:
        def cell(obj: Object, now: datetime) -> str:
            found = template(obj, now).get("containers") or []
            return ",".join(str(container.get(field, "")) for container in found)

        return cell

    return (
        Column("Containers", joined("name"), priority=1, doc="Names of each container in the template."),
        Column("Images", joined("image"), priority=1, doc="Images referenced by each container in the template."),
    )


def selector_at(path: str, *, is_map: bool = False) -> Column:
    """The wide column with a workload's selector."""
    found = at(path, None)
    show = humanize.labels if is_map else humanize.selector
    return Column("Selector", lambda obj, now: show(found(obj, now)), priority=1, doc=path)
