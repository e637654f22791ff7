"""For tests of Berth and of plugins for it: builders of objects, a cluster in virtual time, checks of invariants.

`from berth.testing import VirtualCluster, make_node, make_pod` is all that most tests of a plugin need.
"""

from berth.core.builders import expression, make_node, make_object, make_pod, make_pod_group
from berth.core.virtual_cluster import VirtualCluster

__all__ = ["VirtualCluster", "expression", "make_node", "make_object", "make_pod", "make_pod_group"]
