"""What kind of resource a name stands for.

Names go in, yes or no comes out; NodeResourcesFit and NodeResourcesBalancedAllocation ask. The rules are those of
`pkg/apis/core/v1/helper` and `pkg/scheduler/util`, v1.36.
"""

import re
from functools import lru_cache

from berth.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY

PLAIN_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""The resources that every node accounts for, in the order in which reasons name them."""

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""A device class may be asked for as an extended resource of this prefix and its own name."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN = 253


def is_qualified_name(name: str) -> bool:
    """Say whether a name is one that labels and resources may have: `[prefix/]name`."""
    prefix, slash, last = name.rpartition("/")
    if _NAME.fullmatch(last) is None:
        return False
    return not slash or (len(prefix) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(prefix) is not None)


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Say whether a resource is one that Kubernetes itself does not define, like `example.com/gpu`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(f"requests.{name}")


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Say whether a resource is counted beside the plain ones: extended, huge pages, attachable volumes."""
    return name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or is_extended(name)


def may_be_devices(name: str) -> bool:
    """Say whether a device class may back a resource."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)
