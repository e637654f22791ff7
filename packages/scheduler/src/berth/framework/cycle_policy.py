"""Where kube-scheduler's releases schedule a pod differently: one value that the cycle asks instead of branching.

Chosen by `berth.core.generation`; the defaults are today's meanings.
"""

import msgspec


class CyclePolicy(msgspec.Struct, frozen=True):
    """How a pod is scheduled where kube-scheduler's releases differ."""

    nominated_node_first: bool = True
    """Whether the node that a pod is nominated to is tried before all others."""
    one_node_without_scores: bool = True
    """Whether a partial search ends at the first node that fits if nothing would choose among several."""
    error_ends_search: bool = False
    """Whether a filter error on any node fails the attempt, or only if no other node fits."""
    pre_filter_counts_nodes: bool = False
    """Whether the message of a PreFilter rejection counts all nodes, as if each had rejected the pod."""
    tells_post_filter: bool = True
    """Whether what PostFilter said is part of the message."""
    filter_error: str = 'running "{plugin}" filter plugin: {message}'
    """The message of an attempt that ended in the error of a filter; `{pod}` is the pod's name."""
