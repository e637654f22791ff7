"""For tests of Berth and of plugins for it: builders of objects, a cluster in virtual time, checks of invariants.

`from berth.testing import VirtualCluster, make_node, make_pod` is all that most tests of a plugin need, beside
`check_plugin`, which tests what all plugins have in common.
"""

from berth.core.builders import expression, make_node, make_object, make_pod, make_pod_group
from berth.core.virtual_cluster import BrokenPromiseError, VirtualCluster
from berth.testing.plugin_check import PluginFaultError, check_plugin

__all__ = [
    "BrokenPromiseError",
    "PluginFaultError",
    "VirtualCluster",
    "check_plugin",
    "expression",
    "make_node",
    "make_object",
    "make_pod",
    "make_pod_group",
]
