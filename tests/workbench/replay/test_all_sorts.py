"""Recordings of schedulers of all sorts: v1.20's, pod groups, extenders, shards, custom resources."""

import msgspec
import pytest

from berth.api.custom import CustomResource
from berth.api.meta import ObjectMeta
from berth.config.load import legacy_default_config
from berth.core.builders import make_node, make_pod
from berth.core.intake import ShardsHeld
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.registry import Registry
from berth.framework.status import unschedulable
from berth.plugins.registry import in_tree_registry
from berth.recording.configs import config_of
from berth.recording.errors import RecordingError
from berth.recording.file_format import read_segments
from berth.recording.recorder import Recorder
from berth.state.shards import shard_of
from berth_workbench.replay.recording_comparison import IN_A_GROUP, RecordingComparer
from berth_workbench.replay.verification import verify
from packages.scheduler.tests.extender.support import FakeExtenders, configured, keeping, listed
from packages.scheduler.tests.groups.support import PREEMPTING
from packages.scheduler.tests.groups.test_properties import Rivals
from tests.workbench.replay.histories import LIMIT, Churn, no_report


def recorder_to(directory):
    return Recorder(directory, limit=LIMIT, report=no_report)


def replayed(directory, registry=None):
    """Both ways in which a recording is replayed; the second with its own configuration."""
    registry = registry or in_tree_registry()
    verified = verify(read_segments(directory), registry)
    compared = RecordingComparer(registry, other=lambda header: config_of(header.config)).follow(
        read_segments(directory)
    )
    assert verified.first_difference is None
    assert verified.replayed == verified.events
    assert compared.different == 0
    assert compared.compared + sum(compared.not_compared.values()) == compared.decisions == verified.decisions
    return verified, compared


@pytest.mark.parametrize("options", [{"config": legacy_default_config()}, {"generation": "v1.20"}])
def test_a_scheduler_of_v1_20(tmp_path, options):
    lived = Churn(tmp_path, 3, **options)
    lived.live(60)
    lived.close()
    verified, compared = replayed(tmp_path)
    assert verified.bindings > 20
    assert compared.not_compared == {}


def test_pod_groups(tmp_path):
    recorder = recorder_to(tmp_path)
    rivals = Rivals(1, gates=PREEMPTING, build=recorder.build_core)
    for _ in range(150):
        rivals.happen()
    recorder.close()
    verified, compared = replayed(tmp_path)
    assert verified.bindings > 5
    assert compared.compared > 5
    assert set(compared.not_compared) == {IN_A_GROUP}


def test_extenders_answer_what_they_answered(tmp_path):
    recorder = recorder_to(tmp_path)
    url = "http://extender.test"
    config = configured(listed(url, "filter", "prioritize", nodeCacheCapable=True))
    nodes = [make_node(f"n{i}").capacity(cpu="8", memory="8Gi", pods="10") for i in range(4)]
    cluster = VirtualCluster(*nodes, config=config, build=recorder.build_core)
    scores = [{"Host": f"n{i}", "Score": 3 * i} for i in range(4)]
    cluster.answer_call = FakeExtenders({(0, "filter"): keeping("n1", "n2"), (0, "prioritize"): scores})
    for number in range(4):
        cluster.put(make_pod(f"p{number}").request(cpu="1"))
        cluster.run()
    recorder.close()
    assert set(cluster.nodes_of().values()) == {"n2"}
    verified, compared = replayed(tmp_path)
    assert (verified.bindings, compared.compared) == (4, 4)


def test_shards(tmp_path):
    recorder = recorder_to(tmp_path)
    cluster = VirtualCluster(make_node("n").capacity(cpu="8"), shards=4, build=recorder.build_core)
    namespaces = [f"team-{i}" for i in range(6)]
    for namespace in namespaces:
        cluster.put(make_pod("p", namespace).request(cpu="1"))
    held = frozenset({shard_of("team-0", 4), shard_of("team-1", 4)})
    cluster.handle(ShardsHeld(held))
    cluster.run()
    recorder.close()
    ours = sum(shard_of(namespace, 4) in held for namespace in namespaces)
    verified, compared = replayed(tmp_path)
    assert verified.bindings == compared.compared == ours >= 2


class Quota(msgspec.Struct, frozen=True, rename="camel"):
    """A custom resource."""

    metadata: ObjectMeta
    spec: dict[str, int]


@pytest.mark.parametrize("struct", [None, Quota])
def test_custom_resources(tmp_path, struct):
    resource = CustomResource("example.com", "v1", "quotas", "Quota", struct=struct)

    class WithinQuota:
        name = "WithinQuota"

        def __init__(self, _args, handle):
            self._quotas = handle.follow(resource)

        def filter(self, _state, pod, _node):
            quota = self._quotas.get(pod.name, pod.namespace)
            spec = None if quota is None else quota["spec"] if struct is None else quota.spec
            return unschedulable("no quota") if spec is None or not spec["pods"] else None

    registry = in_tree_registry().merge(Registry({"WithinQuota": WithinQuota}, "a test"))
    recorder = recorder_to(tmp_path)
    cluster = VirtualCluster(make_node("n").capacity(cpu="8"), plugins=[WithinQuota], build=recorder.build_core)
    for name, pods in (("a", 1), ("b", 0)):
        manifest = {"apiVersion": "example.com/v1", "kind": "Quota", "spec": {"pods": pods}}
        cluster.put(resource.read({**manifest, "metadata": {"name": name, "namespace": "default"}}))
        cluster.put(make_pod(name).request(cpu="1"))
        cluster.run()
    recorder.close()
    assert cluster.nodes_of() == {"a": "n", "b": ""}
    verified, compared = replayed(tmp_path, registry)
    assert (verified.bindings, compared.compared) == (1, 2)
    (header,) = [segment.header for segment in read_segments(tmp_path)]
    assert header.plugins == {"WithinQuota": "a test"}


def test_a_plugin_that_is_not_there_any_more_is_named(tmp_path):
    class Gone:
        name = "Gone"

        def __init__(self, _args, _handle):
            pass

        def filter(self, _state, _pod, _node):
            return None

    recorder = recorder_to(tmp_path)
    VirtualCluster(make_node("n"), plugins=[Gone], build=recorder.build_core)
    recorder.close()
    with pytest.raises(RecordingError, match=r"was recorded with the plugin Gone of a test: .*--plugin"):
        verify(read_segments(tmp_path), in_tree_registry())
