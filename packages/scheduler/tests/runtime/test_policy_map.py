"""The ConfigMap with a Policy: read from the cluster, and what is said where it cannot be."""

import json

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.config.errors import ConfigError
from berth.config.legacy.documents import AlgorithmSource
from berth.config.load import default_config, legacy_default_config
from berth.config.types import ExtensionPoint
from berth.runtime.policy_map import with_policy_of_cluster

EXTENDER = {"urlPrefix": "http://x", "prioritizeVerb": "p"}
CONFIG = legacy_default_config(source=AlgorithmSource(policy_config_map=("kube-system", "mine")))


class Cluster:
    """Answers one request."""

    def __init__(self, answer):
        self.answer = answer

    async def get(self, resource, namespace, name):
        assert (resource.kind, namespace, name) == ("ConfigMap", "kube-system", "mine")
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps({"kind": "ConfigMap", "data": self.answer}).encode()


async def test_the_policy_takes_the_providers_place():
    policy = {"apiVersion": "v1", "kind": "Policy", "predicates": [{"name": "HostName"}], "priorities": []}
    config = await with_policy_of_cluster(CONFIG, Cluster({"policy.cfg": json.dumps(policy)}))
    enabled = config.profiles[0].plugins.at(ExtensionPoint.FILTER).enabled
    assert [plugin.name for plugin in enabled] == ["NodeUnschedulable", "NodeName", "TaintToleration"]


async def test_other_configurations_ask_for_nothing():
    config = default_config()
    assert await with_policy_of_cluster(config, Cluster(AssertionError("asked"))) is config


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ApiError(404, "NotFound", 'configmaps "mine" not found'), "couldn't get policy config map kube-system/mine: "),
        (ConnectionLost("nobody there"), "couldn't get policy config map kube-system/mine: nobody there"),
        ({}, 'ConfigMap kube-system/mine: missing policy config map value at key "policy.cfg"'),
        ({"policy.cfg": "{}"}, "ConfigMap kube-system/mine, policy.cfg: invalid policy"),
        (
            {"policy.cfg": json.dumps({"apiVersion": "v1", "kind": "Policy", "extenders": [EXTENDER]})},
            "ConfigMap kube-system/mine: extenders[0]",
        ),
    ],
)
async def test_what_is_wrong_names_the_config_map(answer, words):
    with pytest.raises(ConfigError) as caught:
        await with_policy_of_cluster(CONFIG, Cluster(answer))
    assert words in str(caught.value)
