"""Label selectors as workloads hold them, in JSON, made ready to match.

In goes `spec.selector`, out comes the compiled selector of `berth.api.selectors`; one that cannot be read
selects nothing, since a controller must never claim pods by mistake.
"""

import logging
from typing import Any

import msgspec

from berth.api.meta import LabelSelector
from berth.api.selectors import NOTHING, Selector, SelectorError, compile_selector
from berth_cluster.controllers.meta import JsonObject

logger = logging.getLogger(__name__)


def selector_of(workload: JsonObject) -> Selector:
    """The compiled `spec.selector` of a Deployment, ReplicaSet or Job."""
    return compile_json(workload["spec"].get("selector") or None, workload["metadata"]["name"])


def compile_json(selector: Any, name: str) -> Selector:
    """A label selector compiled: none at all selects nothing, an empty one everything; `name` is whose it is."""
    if selector is None:
        return NOTHING
    try:
        return compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError) as error:
        logger.warning("%s: spec.selector selects nothing, because it cannot be read: %s", name, error)
        return NOTHING
