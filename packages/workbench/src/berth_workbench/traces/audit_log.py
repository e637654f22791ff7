"""Reads an API server's audit log, as the log backend writes it, for what happened to pods and nodes.

Pods are read of requests for them, their `binding` and `status`, at the levels `Request` and `RequestResponse`; nodes
of the responses to their kubelets, at `RequestResponse`. `berth_workbench.traces.recorded` makes a workload of it. A
`deletecollection` names nobody, and is passed over.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from berth.agreement.stream import Arrived
from berth.api.codec import ObjectError, decode
from berth.api.pod import Pod
from berth.api.untrusted import UNREADABLE, problem_of, shortened
from berth.core.intake import ObjectEvent
from berth_workbench.traces.recorded import workload_of
from berth_workbench.traces.trace import TimedWorkload, TraceError, lines_of


def read_audit_log(path: Path) -> TimedWorkload:
    """Return what the audit log in a file, or in the files of a directory, tells of. Raises `TraceError`."""
    events = sorted((event for file in files_in(path) for event in _audited(file)), key=lambda each: each.at)
    return workload_of(events, str(path))


def files_in(path: Path) -> list[Path]:
    """Return a file, or those of a directory. Raises `TraceError` where there is none."""
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    if not files:
        raise TraceError(f"{path}: there is no file in it")
    return files


class _Audit(msgspec.Struct, rename="camel"):
    """A line of an audit log."""

    stage: str = ""
    verb: str = ""
    object_ref: dict[str, Any] | None = None
    response_status: dict[str, Any] | None = None
    request_object: dict[str, Any] | None = None
    response_object: dict[str, Any] | None = None
    stage_timestamp: str = ""
    kind: str = ""


def _audited(file: Path) -> Iterator[Arrived]:
    pods: dict[str, Pod] = {}
    decoder = msgspec.json.Decoder(_Audit)
    for number, line in lines_of(file):
        where = f"{file}:{number}"
        try:
            audit = decoder.decode(line)
            if audit.kind != "Event":
                raise TraceError(f"{where}: {shortened(repr(audit.kind), 80)} is no Event of an audit log")
            ref, code = audit.object_ref or {}, int((audit.response_status or {}).get("code") or 0)
            if (
                audit.stage != "ResponseComplete"
                or not 200 <= code < 300
                or ref.get("resource") not in ("pods", "nodes")
            ):
                continue
            event = _event(audit, ref, pods)
            at = datetime.fromisoformat(audit.stage_timestamp).timestamp()
        except (*UNREADABLE, ObjectError) as error:
            raise TraceError(f"{where}: {problem_of(error)}") from None
        except ValueError as error:
            raise error if isinstance(error, TraceError) else TraceError(f"{where}: {error}") from None
        if event is not None:
            yield Arrived(event, at)


def _event(audit: _Audit, ref: Mapping[str, Any], pods: dict[str, Pod]) -> ObjectEvent | None:
    """Return what a request did to a pod or node; None where it says nothing of what it is now."""
    kind, part = ("Pod" if ref["resource"] == "pods" else "Node"), ref.get("subresource") or ""
    name, namespace = str(ref.get("name") or ""), str(ref.get("namespace") or "")
    given = audit.response_object if audit.response_object else audit.request_object if audit.verb == "create" else None
    if given is not None and given.get("kind", kind) != kind:
        given = None
    key = f"{namespace}/{name or ((given or {}).get('metadata') or {}).get('name', '')}"
    if kind == "Pod" and part == "binding":
        target, known = ((audit.request_object or {}).get("target") or {}).get("name"), pods.get(key)
        if known is None or not target:
            return None
        spec = msgspec.structs.replace(known.spec, node_name=str(target))
        pods[key] = msgspec.structs.replace(known, spec=spec)
        return ObjectEvent("MODIFIED", kind, pods[key])
    if audit.verb == "delete" and not part:
        obj = pods.pop(key, None) if kind == "Pod" else decode("Node", {"metadata": {"name": name}})
        return None if obj is None else ObjectEvent("DELETED", kind, obj)
    if given is None or part not in ("", "status"):
        return None
    metadata = {"namespace": namespace, **(given.get("metadata") or {})}
    if not metadata.get("name"):
        return None
    known = pods.get(key) if kind == "Pod" else None
    metadata["uid"] = known.metadata.uid if known is not None else metadata.get("uid") or key
    obj = decode(kind, {**given, "metadata": metadata})
    if kind == "Pod":
        if known is not None and not obj.spec.node_name and known.spec.node_name:
            obj = msgspec.structs.replace(obj, spec=known.spec)
        pods[key] = obj
    return ObjectEvent("ADDED" if audit.verb == "create" else "MODIFIED", kind, obj)
