"""InterPodAffinity: pods that want, or do not want, to share a topology domain with other pods.

Upstream plugin `InterPodAffinity`, v1.36. Both sides count: the incoming pod's terms about running pods, and running
pods' terms about the incoming one. `filtering` and `scoring` hold the state and the columns of one cycle, `plugin` the
class. matchLabelKeys and mismatchLabelKeys are not read: the API server has merged them into the selectors.
"""

from berth.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs

__all__ = ["InterPodAffinity", "InterPodAffinityArgs"]
