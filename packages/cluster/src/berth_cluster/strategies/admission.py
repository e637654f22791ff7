"""The API group admissionregistration.k8s.io: nothing acts on its kinds, but what is not CEL is refused."""

from collections.abc import Iterator

from berth.cel.program import CompileError
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.custom.rules import compiled
from berth_workloads.pods import objects_in


def expressions_are_cel(obj: Object, _path: str, errors: FieldErrors) -> None:
    """Check the syntax alone: which variables and functions an expression may use is not known here."""
    for place, text in _expressions(obj):
        try:
            compiled(text, "bool")
        except CompileError as error:
            if "Syntax error" in str(error):
                errors.invalid(place, text, str(error))


def _expressions(obj: Object) -> Iterator[tuple[str, str]]:
    spec = obj.get("spec") or {}
    holders = [("spec", spec), *((f"webhooks[{i}]", each) for i, each in enumerate(objects_in(obj, "webhooks")))]
    for place, holder in holders:
        for part in ("matchConditions", "variables", "validations"):
            for number, each in enumerate(objects_in(holder, part)):
                yield f"{place}.{part}[{number}].expression", str(each.get("expression", ""))
