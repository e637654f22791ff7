"""Ephemeral containers, which `kubectl debug` adds to a pod that runs, by its subresource `ephemeralcontainers`.

Rules and messages: pkg/apis/core/validation, v1.36 (validateEphemeralContainers, ValidatePodEphemeralContainersUpdate).
"""

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.go_form import difference
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies.checks import Check

SECTION = "ephemeralContainers"
_NOT_FOR_THEM = (
    "ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy",
    "restartPolicy", "restartPolicyRules",
)  # fmt: skip
_WHY = "cannot be set for an Ephemeral Container"


def check_ephemeral(spec: Object, field: str, errors: FieldErrors, check_container: Check) -> None:
    """The ephemeral containers of a pod, beside its others."""
    others = {one.get("name") for name in ("containers", "initContainers") for one in spec.get(name) or ()}
    names = set(others)
    for number, container in enumerate(spec.get(SECTION) or ()):
        place, name = f"{field}.{SECTION}[{number}]", container.get("name", "")
        check_container(container, place, errors)
        if name in names:
            errors.duplicate(f"{place}.name", name)
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.not_found(f"{place}.targetContainerName", target)
        for one in _NOT_FOR_THEM:
            if container.get(one):
                errors.forbidden(f"{place}.{one}", _WHY)
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            for path in ("subPath", "subPathExpr"):
                if mount.get(path):
                    errors.forbidden(f"{place}.volumeMounts[{index}].{path}", _WHY)


def check_additions(new: Object, old: Object, errors: FieldErrors) -> None:
    """Those that are there stay as they are."""
    wanted = {one.get("name"): one for one in new["spec"].get(SECTION) or ()}
    for container in old["spec"].get(SECTION) or ():
        name = container["name"]
        if name not in wanted:
            errors.forbidden(f"spec.{SECTION}", f'existing ephemeral containers "{name}" may not be removed\n')
        elif wanted[name] != container:
            change = difference("core.v1.EphemeralContainer", container, wanted[name])
            errors.forbidden(f"spec.{SECTION}", f'existing ephemeral containers "{name}" may not be changed\n{change}')
