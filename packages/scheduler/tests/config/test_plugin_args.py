"""Plugin args: decoded through the type that the plugin declares, with its defaults and its own rules."""

import msgspec
import pytest

from berth.config.errors import ConfigError, invalid
from berth.config.plugin_args import decode_plugin_args, decode_profile_args
from berth.config.types import KubeSchedulerProfile


class Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    weight: int = 1


class SampleArgs(msgspec.Struct, frozen=True, rename="camel"):
    resources: tuple[Resource, ...] = (Resource("cpu"), Resource("memory"))
    hard_weight: int = 1

    def defaulted(self):
        filled = tuple(msgspec.structs.replace(each, weight=each.weight or 1) for each in self.resources)
        return msgspec.structs.replace(self, resources=filled)

    def validate(self, path):
        if not 0 <= self.hard_weight <= 100:
            yield invalid(f"{path}.hardWeight", self.hard_weight, "not in valid range [0-100]")


class PlainArgs(msgspec.Struct, frozen=True, rename="camel"):
    on: bool = False


TYPES = {"Sample": SampleArgs, "Plain": PlainArgs}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, SampleArgs()),
        ({}, SampleArgs()),
        ({"hardWeight": 5}, SampleArgs(hard_weight=5)),
        ({"resources": [{"name": "cpu", "weight": 0}]}, SampleArgs(resources=(Resource("cpu", 1),))),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "SampleArgs"}, SampleArgs()),
    ],
)
def test_decodes(raw, expected):
    assert decode_plugin_args("Sample", raw, SampleArgs, "args") == expected


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"hardweight": 5}, 'args.hardweight: unknown field "hardweight"; did you mean hardWeight?'),
        ({"hardWeight": "5"}, 'args.hardWeight: Invalid value: "5": expected an integer, got a string'),
        ({"hardWeight": 101}, "args.hardWeight: Invalid value: 101: not in valid range [0-100]"),
        ({"resources": [{}]}, "args.resources[0].name: Required value"),
        ({"kind": "OtherArgs"}, "args.kind: args for plugin Sample were not of type SampleArgs, got OtherArgs"),
        ({"apiVersion": "v1"}, 'args.apiVersion: Invalid value: "v1": leave it out'),
        ([], "args: Invalid value: []: expected a mapping, got a list"),
    ],
)
def test_refuses(raw, message):
    with pytest.raises(ConfigError) as caught:
        decode_plugin_args("Sample", raw, SampleArgs, "args")
    assert any(message in error for error in caught.value.errors)


def test_profile_args_cover_defaults_and_keep_undeclared_ones_raw():
    profile = KubeSchedulerProfile(plugin_config={"Mine": {"x": 1}, "Sample": {"hardWeight": 2}})
    assert decode_profile_args(profile, TYPES) == {
        "Mine": {"x": 1},
        "Sample": SampleArgs(hard_weight=2),
        "Plain": PlainArgs(),
    }
    assert decode_profile_args(profile, TYPES, names=[]) == {"Mine": {"x": 1}, "Sample": SampleArgs(hard_weight=2)}


def test_profile_args_report_the_faults_of_all_plugins():
    profile = KubeSchedulerProfile(plugin_config={"Plain": {"on": 1}, "Sample": {"hardWeight": -1}})
    with pytest.raises(ConfigError) as caught:
        decode_profile_args(profile, TYPES, "profiles[2]")
    assert [error.split(":")[0] for error in caught.value.errors] == [
        "profiles[2].pluginConfig[0].args.on",
        "profiles[2].pluginConfig[1].args.hardWeight",
    ]
