"""Objects that plugins follow by themselves: of which resources, by a configuration, and which of them a snapshot has.

What the scheduler reads is the same for everybody; this depends on the configuration, so whoever takes a snapshot of a
cluster has to ask for it, and whoever tries something on one has to look for it.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from berth.api.custom import CustomResource
from berth.config.load import default_config
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.options import CoreOptions
from berth.framework.registry import Registry
from berth.plugins.registry import full_registry
from berth_workbench.snapshot.documents import Document


def resources_followed(
    config: SchedulerConfiguration | None, registry: Registry | None = None
) -> tuple[CustomResource, ...]:
    """Return the resources that the plugins of a configuration follow. Raises `ConfigError`."""
    options = CoreOptions(rng=random.Random(0))
    return tuple(build_core(config or default_config(), registry or full_registry(), options).resources)


def followed_kinds(resources: Iterable[CustomResource]) -> dict[tuple[str, str], CustomResource]:
    """Return these resources by the apiVersion and kind that their objects have."""
    return {(each.resource.api_version, each.kind): each for each in resources}


def take_followed(
    documents: Iterable[Document],
    resources: Iterable[CustomResource],
    take: Callable[[Any], None],
    namespace: str = "default",
) -> list[Document]:
    """Hand over the objects that plugins follow by themselves; return the documents that are left for others to read.

    Which these are the plugins say, so they are no part of what documents tell every scheduler; the scheduler may read
    some of them besides. `namespace` is that of objects that have one and do not say which. Raises `ObjectError`.
    """
    wanted = followed_kinds(resources)
    left = []
    for document in documents:
        resource = wanted.get((document.api_version, document.kind))
        if resource is not None:
            take(resource.read(_in_namespace(document.manifest, namespace if resource.namespaced else "")))
        if resource is None or document.is_read_by_scheduler:
            left.append(document)
    return left


def _in_namespace(manifest: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    metadata = manifest.get("metadata")
    if not namespace or not isinstance(metadata, Mapping) or metadata.get("namespace"):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}
