"""Objects as the scheduler's structs, for controllers that go by rules which `berth.api` has on these."""

import logging
from typing import Any

from berth.api import codec
from berth_cluster.apimachinery.meta import Object, key_of

logger = logging.getLogger(__name__)


def decoded(kind: str, obj: Object) -> Any:
    """The struct of an object, None where it cannot be read: then a warning says that it is set aside."""
    try:
        return codec.decode(kind, obj)
    except codec.ObjectError as error:
        logger.warning("%s %s set aside: %s", kind, key_of(obj), error)
        return None
