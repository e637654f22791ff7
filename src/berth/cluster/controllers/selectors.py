"""Label selectors as workloads hold them, in JSON, made ready to match.

In goes `spec.selector`, out comes the compiled selector of `berth.api.selectors`; one that cannot be read
selects nothing, since a controller must never claim pods by mistake.
"""

import logging

import msgspec

from berth.api.meta import LabelSelector
from berth.api.selectors import NOTHING, Selector, SelectorError, compile_selector
from berth.cluster.controllers.meta import JsonObject

logger = logging.getLogger(__name__)


def selector_of(workload: JsonObject) -> Selector:
    """The compiled `spec.selector` of a Deployment, ReplicaSet or Job."""
    selector = workload["spec"].get("selector")
    if not selector:
        return NOTHING
    try:
        return compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError) as error:
        name = workload["metadata"]["name"]
        logger.warning("%s: spec.selector selects nothing, because it cannot be read: %s", name, error)
        return NOTHING
