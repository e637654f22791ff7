"""DynamicResources as far as it goes in this release: pods without claims, and a clear no to the others."""

import pytest

from berth.api.codec import decode
from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action
from berth.framework.status import SKIP, Code, error, unschedulable
from berth.plugins.dynamic_resources import DynamicResources, DynamicResourcesArgs
from berth.testing.builders import make_node, make_pod
from tests.plugins.support import diagnosed, handle_of, raw_scores, registered

CLUSTER = handle_of(make_node("a").build(), make_node("b").build())
PLUGIN = DynamicResources(DynamicResourcesArgs(), CLUSTER)


def test_a_pod_without_claims_fits_everywhere_and_scores_nothing():
    assert PLUGIN.pre_filter(CycleState(), make_pod().info()) is SKIP
    assert raw_scores(PLUGIN, make_pod().info(), CLUSTER) == {"a": 0, "b": 0}


def test_a_pod_with_claims_is_refused_in_words():
    state, pod = CycleState(), make_pod().resource_claim("gpu").info()
    status = PLUGIN.pre_filter(state, pod)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "this release of Berth does not schedule pods with resource claims yet (claim 'gpu')"
    assert PLUGIN.filter(state, pod, CLUSTER.cache.table.view(0)) == status


def test_a_pod_whose_resource_only_devices_offer_is_refused_in_words():
    cluster = handle_of(make_node("a").build())
    device_class = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    cluster.objects.put("DeviceClass", decode("DeviceClass", device_class))
    status = DynamicResources(DynamicResourcesArgs(), cluster).pre_filter(
        CycleState(), make_pod().request(**{"example.com/gpu": "1"}).info()
    )
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == (
        "this release of Berth does not schedule pods with extended resources backed by devices yet "
        "(resource 'example.com/gpu')"
    )


@pytest.mark.parametrize("pod", [make_pod(), make_pod().resource_claim("gpu")])
def test_there_is_nothing_to_deallocate(pod):
    state = CycleState()
    PLUGIN.pre_filter(state, pod.info())
    said = PLUGIN.post_filter(state, pod.info(), diagnosed(CLUSTER))
    assert said == (None, unschedulable("no new claims to deallocate"))


def test_where_another_pre_filter_came_first_nothing_is_known_of_the_pod():
    said = PLUGIN.post_filter(CycleState(), make_pod().info(), diagnosed(CLUSTER))
    assert said == (None, error("not found"))


@pytest.mark.parametrize(
    ("args", "detail"),
    [
        ({"filterTimeout": "-1s"}, 'args.filterTimeout: Invalid value: "-1s": must be zero or positive'),
        ({"bindingTimeout": "999ms"}, 'args.bindingTimeout: Invalid value: "999ms": must be at least 1 second'),
    ],
)
def test_timeouts_that_make_no_sense(args, detail):
    with pytest.raises(ConfigError) as raised:
        decode_plugin_args("DynamicResources", args, DynamicResourcesArgs, "args")
    assert raised.value.errors == (detail,)


def test_defaults_and_a_filter_without_timeout():
    decoded = decode_plugin_args("DynamicResources", {"filterTimeout": "0s"}, DynamicResourcesArgs, "args")
    assert (decoded.filter_timeout, decoded.binding_timeout) == (0.0, 600.0)
    assert DynamicResourcesArgs().filter_timeout == 10.0


def test_events():
    assert registered(PLUGIN) == {
        ("Node", Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE),
        ("ResourceClaim", Action.ADD | Action.UPDATE),
        ("Pod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        ("DeviceClass", Action.ADD | Action.UPDATE),
        ("ResourceSlice", Action.ADD | Action.UPDATE),
    }
