"""Events in their two API versions: `v1`, in which they are stored, and `events.k8s.io/v1`.

The scheduler writes the newer one and kubectl reads the older one; both show the same objects.
"""

from types import MappingProxyType

from berth_cluster.apimachinery.meta import Object

# new field -> old field, where only the name differs
_RENAMED = MappingProxyType(
    {
        "regarding": "involvedObject",
        "note": "message",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
        "reportingController": "reportingComponent",
    }
)
_BACK = MappingProxyType({old: new for new, old in _RENAMED.items()})
_SAME = ("metadata", "reason", "type", "eventTime", "series", "action", "related", "reportingInstance")


def from_new(event: Object) -> Object:
    """The stored form of an events.k8s.io/v1 Event."""
    stored: Object = {"apiVersion": "v1", "kind": "Event"}
    for key, value in event.items():
        if key in _SAME:
            stored[key] = value
        elif key in _RENAMED:
            stored[_RENAMED[key]] = value
    return stored


def to_new(stored: Object) -> Object:
    """A stored event as events.k8s.io/v1 shows it."""
    event: Object = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    for key, value in stored.items():
        if key in _SAME:
            event[key] = value
        elif key in _BACK:
            event[_BACK[key]] = value
    return event
