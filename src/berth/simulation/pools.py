"""Which pool a node belongs to; the labels are `berth.api.pools`."""

from berth.api.pools import INSTANCE_TYPE, POOL_LABELS, pool_of

__all__ = ["INSTANCE_TYPE", "POOL_LABELS", "pool_of"]
