"""How long a container that only pretends to run does so, and with which code it exits.

The pod's annotations say it, for all containers or for those that they name; else its command does, where that is
plain (`shell`). Functions over pods as JSON and the files of their node, called by `kubelet`.

    berth.dev/run-seconds: "30"          all containers but init containers and sidecars
    berth.dev/exit-code: "1,0"           the first run exits with 1, all later ones with 0
    berth.dev/exit-code: "setup=3;1"     the container setup with 3, others as above
    berth.dev/ready-seconds: "5"         how long after its start a container is ready
"""

import logging
from typing import NamedTuple

from berth_cluster.apimachinery.meta import Object, annotations_of, key_of, uid_of, value_at
from berth_cluster.hollow.shell import ENDLESS, run_command, run_script

logger = logging.getLogger(__name__)

RUN_SECONDS = "berth.dev/run-seconds"
EXIT_CODE = "berth.dev/exit-code"
READY_SECONDS = "berth.dev/ready-seconds"
ANNOTATIONS = (RUN_SECONDS, EXIT_CODE, READY_SECONDS)
MAX_FILES = 10_000  # that are remembered of a node
_SHELLS = ("sh", "ash", "bash", "dash")
_NO_IMAGE = frozenset({"404", "nonexistent", "doesnotexist"})


class ContainerRun(NamedTuple):
    """One run of a container, from its start to its exit."""

    run_s: float
    exit_code: int = 0


def run_of(
    pod: Object, container: Object, restarts: int, files: "NodeFiles", *, is_init: bool, default_s: float
) -> ContainerRun:
    """The run after so many restarts. `default_s` is how long a pod that is to end runs if it says nothing."""
    name, is_sidecar = container["name"], is_init and container.get("restartPolicy") == "Always"
    said_s = said_of(pod, RUN_SECONDS, name, restarts, is_named_only=is_init)
    said_code = said_of(pod, EXIT_CODE, name, restarts, is_named_only=is_init)
    key = (uid_of(pod), name, restarts)
    if key not in files.runs:  # which is told once, since the run may change the files that it looks for
        files.runs[key] = plain_run(pod, container, files)
    plain = files.runs[key]
    if plain is None:
        is_endless = is_sidecar or (not is_init and pod["spec"].get("restartPolicy", "Always") == "Always")
        ends_s = 0.0 if is_init and not is_sidecar else default_s
        plain = ContainerRun(ENDLESS if is_endless and said_code is None else ends_s)
    run_s = plain.run_s if said_s is None else said_s
    return ContainerRun(run_s, plain.exit_code if said_code is None else int(said_code))


def said_of(pod: Object, annotation: str, container: str, run: int, *, is_named_only: bool = False) -> float | None:
    """What an annotation says of one run of a container, None if nothing that is a number."""
    text = annotations_of(pod).get(annotation)
    if text is None:
        return None
    parts = (part.strip().rpartition("=") for part in text.split(";"))
    said = {name.strip(): numbers.split(",") for name, _, numbers in parts}
    numbers = said.get(container) or (None if is_named_only else said.get(""))
    if numbers is None:
        return None
    number = numbers[min(run, len(numbers) - 1)]
    try:
        found = float(number)
    except ValueError:
        found = -1.0
    if found >= 0 and (annotation != EXIT_CODE or found < 256):
        return found
    logger.warning("pod %s: annotation %s: %r is no such number, and is left out", key_of(pod), annotation, number)
    return None


def plain_run(pod: Object, container: Object, files: "NodeFiles") -> ContainerRun | None:
    """How a container runs by its command or its image; None where that cannot be told without running it."""
    command = [*(container.get("command") or []), *(container.get("args") or [])]
    if not command:
        return ContainerRun(ENDLESS) if image_name(container) == "pause" else None
    seen = ContainerFiles(pod, container, files)
    if command[0].rpartition("/")[2] in _SHELLS:
        if len(command) != 3 or command[1] not in ("-c", "-ec"):
            return None
        told = run_script(command[2], _variables(pod, container), seen, stops_at_failure=command[1] == "-ec")
    else:
        told = run_command(command, seen)
    return None if told is None else ContainerRun(*told)


def stop_s(pod: Object, files: "NodeFiles") -> float:
    """How long the preStop hooks of a pod's running containers take; they run side by side."""
    states = (pod.get("status") or {}).get("containerStatuses") or ()
    running = {state["name"] for state in states if "running" in (state.get("state") or {})}
    return max(
        (_hook_s(pod, each, files) for each in pod["spec"]["containers"] if each["name"] in running), default=0.0
    )


def _hook_s(pod: Object, container: Object, files: "NodeFiles") -> float:
    hook = value_at(container, "lifecycle.preStop") or {}
    if "exec" not in hook:
        return float(value_at(hook, "sleep.seconds") or 0)
    command = hook["exec"].get("command") or ["true"]
    run = plain_run(pod, {**container, "command": command, "args": ()}, files)
    return 0.0 if run is None else run.run_s


def cannot_be_pulled(image: str) -> bool:
    """Whether an image says of itself that there is none, as those do that tests and rehearsals use."""
    return image.rpartition("/")[2].partition(":")[2].replace("-", "").lower() in _NO_IMAGE


def image_name(container: Object) -> str:
    """The last part of an image's name, without registry, tag and digest."""
    return str(container.get("image", "")).rpartition("/")[2].partition("@")[0].partition(":")[0]


def _variables(pod: Object, container: Object) -> dict[str, str]:
    """The environment of a container, as far as it follows from the pod's spec and metadata."""
    found = {"HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    for one in container.get("env") or ():
        path = value_at(one, "valueFrom.fieldRef.fieldPath") or ""
        holder, has_key, key = path.removesuffix("']").partition("['")
        value = value_at(pod, holder) if path else one.get("value", "") if "valueFrom" not in one else None
        value = (value or {}).get(key) if has_key else value
        if isinstance(value, str):
            found[one["name"]] = value
    return found


class NodeFiles:
    """What is remembered of the containers of a node: files on volumes, and runs that depended on some."""

    __slots__ = ("_paths", "runs")

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self.runs: dict[tuple[str, str, int], ContainerRun | None] = {}
        """By uid of the pod, name of the container and number of restarts."""

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def add(self, path: str) -> None:
        """Remember a file."""
        if len(self._paths) < MAX_FILES:
            self._paths.add(path)

    def forget(self, uid: str) -> None:
        """Forget a pod, with the files of its own."""
        self._paths = {path for path in self._paths if not path.startswith(f"{uid}/")}
        for key in [key for key in self.runs if key[0] == uid]:
            del self.runs[key]


class ContainerFiles:
    """The files that one container sees: those on its volumes of the kinds `emptyDir` and `hostPath` are known."""

    __slots__ = ("_files", "_mounts")

    def __init__(self, pod: Object, container: Object, files: NodeFiles) -> None:
        self._files = files
        self._mounts: dict[str, str] = {}
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"]) or {}
            place = (volume.get("hostPath") or {}).get("path")
            if "emptyDir" in volume:
                place = f"{uid_of(pod)}/{mount['name']}"
            if place is not None:
                self._mounts[mount["mountPath"].rstrip("/") + "/"] = place

    def has(self, path: str) -> bool | None:
        """Whether there is such a file; None where it would be none of these."""
        place = self._place(path)
        return None if place is None else place in self._files

    def touch(self, path: str) -> None:
        """Make a file, which is remembered if its volume outlives the container."""
        place = self._place(path)
        if place is not None:
            self._files.add(place)

    def _place(self, path: str) -> str | None:
        mount = next((mount for mount in self._mounts if path.startswith(mount)), None)
        return None if mount is None else f"{self._mounts[mount]}/{path.removeprefix(mount)}"
