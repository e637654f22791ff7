"""What tests of the guests share: configurations that enable a plugin and little else."""

import pytest

KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def configured(*enabled, args=None, sorts=False):
    """Return a configuration with these plugins besides NodeResourcesFit and what sorts and binds."""
    names = [*enabled, "DefaultBinder", "NodeResourcesFit", *(() if sorts else ("PrioritySort",))]
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    if args is not None:
        profile["pluginConfig"] = [{"name": enabled[0], "args": args}]
    return {**KIND, "profiles": [profile]}


@pytest.fixture
def config():
    """Return what makes a configuration: plugins by name, the first one's args, and whether one of them sorts."""
    return configured
