"""A pod with claims on its way through the whole scheduler: volumes written, waited for, given back."""

import pytest
from msgspec.structs import replace

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import ApiCall, Bind
from packages.scheduler.tests.plugins.volumes.world import SELECTED, ZONE, claim, on, storage_class, volume
from packages.scheduler.tests.support import requests_of

NODE = make_node("n1").capacity(cpu="4", memory="8Gi", pods=10).label(ZONE, "a")
STATIC = storage_class("static", "kubernetes.io/no-provisioner")
WAIT = storage_class("wait")


def pod(name, *claims):
    found = make_pod(name).request(cpu="100m")
    for one in claims:
        found.volume(one, persistentVolumeClaim={"claimName": one})
    return found


def static_cluster(*more, **options):
    objects = NODE, STATIC, claim("c", klass="static", version="5"), volume("v", klass="static", version="6")
    return VirtualCluster(*objects, pod("p", "c"), *more, **options).run()


def writes(found):
    return [request for request in found.requests if isinstance(request.effect, ApiCall)]


def bind_volume(found):
    """What the volume controller does once the scheduler has promised v to c."""
    found.put(volume("v", klass="static", version="7", ref="c", phase="Bound"))
    found.put(claim("c", klass="static", version="8", volume="v"))


def test_a_pod_is_bound_once_its_static_volume_is():
    found = static_cluster()
    (write,) = writes(found)
    assert (write.effect.verb, write.effect.kind, write.effect.name) == ("patch", "PersistentVolume", "v")
    assert not requests_of(found, Bind)
    found.answer(write, result={"metadata": {"resourceVersion": "7"}})
    assert found.nodes_of() == {"p": ""}
    bind_volume(found)
    assert found.nodes_of() == {"p": "n1"}
    assert not len(found.core.objects.assumed)


def test_a_pod_is_bound_once_its_volume_is_provisioned():
    found = VirtualCluster(NODE, WAIT, claim("d", version="5"), pod("p", "d")).run()
    (write,) = writes(found)
    assert write.effect.body["metadata"]["annotations"] == {SELECTED: "n1"}
    found.answer(write)
    found.put(claim("d", version="6", annotations={SELECTED: "n1"}))
    assert found.nodes_of() == {"p": ""}
    found.put(volume("new", version="7", affinity=on(ZONE, "a"), ref="d", phase="Bound"))
    found.put(claim("d", version="8", annotations={SELECTED: "n1"}, volume="new"))
    assert found.nodes_of() == {"p": "n1"}


def test_binding_times_out_and_the_pod_is_tried_again():
    found = static_cluster()
    found.answer(*writes(found))
    found.advance(599.0)
    assert not found.events("FailedScheduling")
    found.advance(1.0)
    (told,) = found.events("FailedScheduling")
    assert told == 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    found.advance(2.0)
    assert len(writes(found)) == 1


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_documents_of_older_versions_give_the_time_for_binding_themselves(version):
    """WithBindTimeoutSeconds: a field of the document then, an argument of VolumeBinding since v1beta1."""
    document = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration"}
    found = static_cluster(config={**document, "bindTimeoutSeconds": 7})
    found.answer(*writes(found))
    found.advance(6.999)
    assert not found.events("FailedScheduling")
    found.advance(0.001)
    (told,) = found.events("FailedScheduling")
    assert told.endswith("context deadline exceeded")


def test_a_conflict_frees_the_volume_for_the_pod_that_was_refused_because_of_it():
    found = static_cluster(claim("d", klass="static", version="9"), pod("q", "d"))
    assert [text.split(".")[0] for text in found.events("FailedScheduling")] == [
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind"
    ]
    (write,) = writes(found)
    found.delete("Pod", "default/p")
    found.answer(write, error='Operation cannot be fulfilled on persistentvolumes "v" (Conflict, HTTP 409)')
    found.advance(2.0)
    (write,) = writes(found)
    assert write.effect.body["spec"]["claimRef"]["name"] == "d"


def test_a_deleted_pod_ends_the_wait():
    found = static_cluster()
    found.answer(*writes(found))
    found.delete("Pod", "default/p")
    found.run()
    assert not requests_of(found, Bind)
    assert not found.core.cache.states()


def test_a_pod_waits_for_its_claim_and_its_claim_for_the_controller():
    found = VirtualCluster(NODE, storage_class("now", mode="Immediate"), pod("p", "c")).run()
    assert found.events("FailedScheduling")[0].startswith(
        '0/1 nodes are available: persistentvolumeclaim "c" not found.'
    )
    found.put(claim("c", klass="now", version="3"))
    found.advance(2.0)
    assert "pod has unbound immediate PersistentVolumeClaims" in found.events("FailedScheduling")[-1]
    found.put(volume("v", klass="now", ref="c", phase="Bound"))
    found.put(claim("c", klass="now", version="4", volume="v"))
    found.advance(5.0)
    assert found.nodes_of() == {"p": "n1"}


def test_a_node_in_the_right_zone_wakes_a_pod():
    elsewhere = volume("v", affinity=on(ZONE, "b"), ref="c", phase="Bound")
    found = VirtualCluster(NODE, claim("c", volume="v"), elsewhere, pod("p", "c")).run()
    found.put(make_node("n2").capacity(cpu="4", memory="8Gi", pods=10).label(ZONE, "a"))
    found.advance(20.0)
    assert len(found.events("FailedScheduling")) == 1
    found.put(make_node("n3").capacity(cpu="4", memory="8Gi", pods=10).label(ZONE, "b"))
    found.advance(2.0)
    assert found.nodes_of() == {"p": "n3"}


def test_a_claim_for_one_pod_passes_from_pod_to_pod():
    found = VirtualCluster(NODE, claim("c", volume="v", modes=("ReadWriteOncePod",)), volume("v", ref="c"))
    found.put(pod("p", "c"))
    found.run()
    found.put(pod("q", "c"))
    found.run()
    assert found.nodes_of() == {"p": "n1", "q": ""}
    found.delete("Pod", "default/p")
    found.advance(2.0)
    assert found.nodes_of() == {"q": "n1"}


def test_a_pod_that_was_changed_meanwhile_keeps_its_volumes():
    found = static_cluster()
    found.answer(*writes(found))
    known = found.pod("p")
    found.put(replace(known, metadata=replace(known.metadata, labels={"x": "y"})))
    bind_volume(found)
    assert found.nodes_of() == {"p": "n1"}
