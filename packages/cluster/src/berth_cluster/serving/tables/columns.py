"""Building blocks of tables: a column is a heading and a function from object (and time) to cell."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from berth_cluster.apimachinery.meta import Object, value_at
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


def text(name: str, path: str, default: Any = "", kind: str = "string", *, priority: int = 0, doc: str = "") -> Column:
    """A column with what is at a path."""

    def cell(obj: Object, _now: datetime) -> Any:
        found = value_at(obj, path)
        return default if found == "" or found is None else found

    return Column(name, cell, kind, priority=priority, doc=doc or path)


def number(name: str, path: str, *, doc: str = "") -> Column:
    """A column with the whole number at a path."""
    return text(name, path, 0, "integer", doc=doc)


def flag(name: str, path: str, *, default: bool = False) -> Column:
    """A column with the yes or no at a path."""
    return text(name, path, default, "boolean")


def shown(name: str, doc: str, cell: Callable[[Object], Any], kind: str = "string", *, priority: int = 0) -> Column:
    """A column computed from the object alone."""
    return Column(name, lambda obj, _now: cell(obj), kind, priority=priority, doc=doc)


def written(
    name: str, path: str, write: Callable[[Any], Any], kind: str = "string", *, priority: int = 0, doc: str = ""
) -> Column:
    """A column computed from what is at a path; from None where there is nothing."""
    return shown(name, doc or path, lambda obj: write(value_at(obj, path)), kind, priority=priority)


def counted(name: str, path: str, doc: str = "") -> Column:
    """A column with the number of entries at a path."""
    return written(name, path, lambda found: len(found or ()), "integer", doc=doc)


def since(name: str, path: str, unknown: str = humanize.UNKNOWN) -> Column:
    """A column with the time since the moment at a path."""
    return Column(name, lambda obj, now: humanize.age(value_at(obj, path), now, unknown), doc=path)


NAME = text("Name", "metadata.name")._replace(format="name")
AGE = since("Age", "metadata.creationTimestamp")
CREATED_AT = text("Created At", "metadata.creationTimestamp", kind="date")


def containers_of(path: str) -> tuple[Column, Column]:
    """The wide columns with a template's containers and images."""
    names, images = (f"{what} each container in the template." for what in ("Names of", "Images referenced by"))
    return (
        written("Containers", f"{path}.containers", lambda found: joined(found, "name"), priority=1, doc=names),
        written("Images", f"{path}.containers", lambda found: joined(found, "image"), priority=1, doc=images),
    )


def joined(found: Any, field: str) -> str:
    """One field of some objects on one line."""
    return ",".join(str(one.get(field, "")) for one in found or ())


def selector_at(path: str) -> Column:
    """The wide column with a workload's selector."""
    return written("Selector", path, humanize.selector, priority=1)
