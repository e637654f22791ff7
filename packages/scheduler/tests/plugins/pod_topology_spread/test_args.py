"""PodTopologySpreadArgs: defaults and validation, as documented for kubescheduler.config.k8s.io/v1."""

import pytest

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.plugins.pod_topology_spread import PodTopologySpreadArgs


def decoded(raw):
    return decode_plugin_args("PodTopologySpread", raw, PodTopologySpreadArgs, "args")


def constraint(**fields):
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}


def test_the_default_is_to_spread_by_host_and_zone_as_a_preference():
    found = [(c.max_skew, c.topology_key, c.when_unsatisfiable) for c in decoded(None).constraints()]
    assert found == [
        (3, "kubernetes.io/hostname", "ScheduleAnyway"),
        (5, "topology.kubernetes.io/zone", "ScheduleAnyway"),
    ]


def test_a_list_replaces_them_and_may_be_empty():
    found = decoded({"defaultingType": "List", "defaultConstraints": [constraint(maxSkew=4)]}).constraints()
    assert [(c.max_skew, c.topology_key) for c in found] == [(4, "zone")]
    assert decoded({"defaultingType": "List"}).constraints() == ()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"defaultConstraints": [constraint()]}, 'args.defaultingType: Invalid value: "System": when'),
        ({"defaultingType": "None"}, 'args.defaultingType: Unsupported value: "None"'),
        (
            {"defaultingType": "List", "defaultConstraints": [constraint(maxSkew=0)]},
            "args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [constraint(topologyKey="")]},
            "args.defaultConstraints[0].topologyKey: Required value: can not be empty",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]},
            "args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [constraint(whenUnsatisfiable="Never")]},
            'args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never"',
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [constraint(labelSelector={"matchLabels": {"a": "b"}})]},
            "args.defaultConstraints[0].labelSelector: Forbidden",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [constraint(), constraint(maxSkew=2)]},
            'args.defaultConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}"',
        ),
        ({"defaultConstraint": []}, "args.defaultConstraint"),
    ],
)
def test_faults_name_the_field(raw, message):
    with pytest.raises(ConfigError) as caught:
        decoded(raw)
    assert any(error.startswith(message) for error in caught.value.errors), caught.value.errors
