"""What the cluster itself has on record of a pod's scheduling: node, PodScheduled condition, the scheduler's events.

`berth explain --kubeconfig` falls back on it when the scheduler does not remember the pod or cannot be reached.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

Json = dict[str, Any]
REASONS = ("Scheduled", "FailedScheduling", "Preempted")


class NoRecord(Exception):  # noqa: N818 - it is only ever shown
    """The record cannot be read; the message says why."""

    def __init__(self, message: str, *, is_not_found: bool = False) -> None:
        super().__init__(message)
        self.is_not_found = is_not_found
        """Whether the cluster has no such pod."""


def read_record(kubeconfig: str, namespace: str, name: str) -> Json:
    """The record of a pod as JSON; raises `NoRecord`."""
    from berth.api.errors import ApiError, TransportError
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    try:
        access = load_access(kubeconfig)
        pod, events = asyncio.run(_read(access, namespace, name))
    except (KubeconfigError, TransportError) as error:
        is_not_found = isinstance(error, ApiError) and error.is_not_found
        raise NoRecord(str(error), is_not_found=is_not_found) from None
    return record_of(pod, events)


def record_of(pod: Json, events: Iterable[Json] = ()) -> Json:
    """The record of a pod that has been read."""
    metadata = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or []
    return {
        "pod": f"{metadata.get('namespace', '')}/{metadata['name']}",
        "node": pod["spec"].get("nodeName"),
        "phase": (pod.get("status") or {}).get("phase", ""),
        "condition": next((one for one in conditions if one["type"] == "PodScheduled"), None),
        "events": [_event(event) for event in events if event.get("reason") in REASONS],
    }


async def _read(access: Any, namespace: str, name: str) -> tuple[Json, list[Json]]:
    from berth.api.resources import RESOURCES
    from berth.kube.http.client import HttpTransport

    transport = HttpTransport(access)
    try:
        pod: Json = msgspec.json.decode(await transport.get(RESOURCES["Pod"], namespace, name))
        about = f"regarding.uid={pod['metadata']['uid']}"
        body = await transport.list(RESOURCES["Event"], namespace=namespace, field_selector=about)
        return pod, msgspec.json.decode(body).get("items") or []
    finally:
        await transport.close()


def _event(event: Json) -> Json:
    series = event.get("series") or {}
    time = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp") or ""
    return {"time": time, "reason": event["reason"], "note": event.get("note", ""), "count": series.get("count", 1)}


def sentences(record: Json) -> list[str]:
    """The record for people."""
    condition = record["condition"] or {}
    if record["node"]:
        said = [f"{record['pod']} is on node {record['node']} ({record['phase']})"]
    elif condition.get("status") == "False":
        said = [f"{record['pod']} is pending: {condition.get('reason', '')}: {condition.get('message', '')}"]
    else:
        said = [f"{record['pod']} is pending, and no scheduler has said why"]
    said += [f"  {one['time']} {one['reason']} (x{one['count']}): {one['note']}" for one in record["events"]]
    return [printable(sentence) for sentence in said]


def printable(text: str) -> str:
    """Return text, which anyone may have written, without the characters that control a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
