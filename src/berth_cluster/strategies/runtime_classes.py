"""RuntimeClasses: what is checked of them. What pods get of them is in `berth_workloads.admission`."""

from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import names
from berth_cluster.strategies.base import RESTStrategy
from berth_cluster.strategies.checks import need

RUNTIME_CLASSES = BY_KEY["node.k8s.io", "runtimeclasses"]


# Handlers are part of file names. A class stays what it is, since pods have been admitted by it.
RUNTIME_CLASS = RESTStrategy(check=need("handler", names.check_label_name), fixed=("handler",))
