"""PodTopologySpread: pods of a kind are spread evenly over topology domains, strictly or as a preference.

Upstream plugin `PodTopologySpread`, v1.36. `constraints` compiles what a pod (or the profile, for pods with
none of their own) asks for, `filtering` and `scoring` hold the state and the columns of one cycle, `plugin` the class.
"""

from berth.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from berth.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread", "PodTopologySpreadArgs"]
