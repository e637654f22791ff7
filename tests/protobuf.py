"""Pods, lists and watch events of JSON written in Kubernetes' protobuf format, for servers of tests that speak it.

The messages are those that `berth.api.protobuf_pods` reads, so this says nothing about the numbers of fields: what
`tests/recorded_pods.json` has from a kube-apiserver does.
"""

import json
import struct
from datetime import UTC, datetime

from berth.api.protobuf_pods import MAGIC, message_class

_ENTRIES = ("StringEntry", "QuantityEntry")


def wrapped(raw):
    """An object in its envelope."""
    return MAGIC + message_class("Unknown")(raw=raw).SerializeToString()


def pod(document):
    """A pod, without an envelope."""
    return _message("Pod", document).SerializeToString()


def pod_list(body):
    """A list, given as JSON."""
    found = json.loads(body)
    said = found["metadata"]
    metadata = {"resourceVersion": said.get("resourceVersion", ""), "continueToken": said.get("continue", "")}
    items = [pod(item) for item in found.get("items") or ()]
    page = message_class("PodList")(metadata=message_class("ListMeta")(**metadata), items=items)
    return wrapped(page.SerializeToString())


def status(said):
    """A Status, without an envelope."""
    return _message("Status", said).SerializeToString()


def event(line):
    """A watch event, given as a line of JSON."""
    said = json.loads(line)
    about = said["object"]
    raw = status(about) if said["type"] == "ERROR" else pod(about)
    extension = message_class("RawExtension")(raw=wrapped(raw))
    return message_class("WatchEvent")(type=said["type"], object=extension).SerializeToString()


def frame(message):
    """A message as a watch has it: after its length."""
    return struct.pack(">I", len(message)) + message


def _message(name, said):
    made = message_class(name)()
    for field in made.DESCRIPTOR.fields:
        value = said if field.name == "inline" else (said or {}).get(field.name)
        if value is None:
            continue
        kind = field.message_type and field.message_type.name
        if kind in _ENTRIES:
            getattr(made, field.name).extend(
                message_class(kind)(key=key, value=_value(kind, one)) for key, one in value.items()
            )
        elif field.is_repeated:
            getattr(made, field.name).extend([_as(kind, one) if kind else one for one in value])
        elif kind:
            getattr(made, field.name).CopyFrom(_as(kind, value))
        else:
            setattr(made, field.name, value)
    return made


def _value(entry, value):
    return _as("Quantity", value) if entry == "QuantityEntry" else value


def _as(kind, value):
    if kind == "Quantity":
        return message_class(kind)(text=str(value))
    if kind == "Time":
        moment = datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return message_class(kind)(seconds=int(moment.timestamp()))
    return _message(kind, value)
