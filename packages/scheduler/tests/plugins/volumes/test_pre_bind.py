"""PreBind of VolumeBinding: what it writes, what it waits for, and what ends the wait; sentences are upstream's."""

import random

import pytest

from berth.core.builders import make_node, make_pod
from berth.cycle.dispatcher import Interruption
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Answer, ApiCall, WaitUntil
from berth.framework.observations import VolumeStageFailed
from berth.framework.status import Code, error
from berth.plugins.volumes.assumed import give_back
from berth.plugins.volumes.pre_bind import Waiting
from berth.plugins.volumes.volume_binding import VolumeBinding, VolumeBindingArgs
from packages.scheduler.tests.plugins.volumes.world import (
    BOUND,
    SELECTED,
    ZONE,
    claim,
    csi_node,
    on,
    storage_class,
    volume,
    world,
)

STATIC_CLAIM = claim("c", klass="static", version="7")
STATIC_VOLUME = volume("v", klass="static", version="3", affinity=on(ZONE, "a"))
DYNAMIC_CLAIM = claim("d", version="8")
CLASSES = storage_class("static", "kubernetes.io/no-provisioner"), storage_class("wait")


class Binding:
    """A pod with claims on node a whose volumes have been reserved, and its PreBind in progress."""

    def __init__(self, *claims, timeout_s=600, objects=()):
        node = make_node("a").label(ZONE, "a").build()
        self.handle = world(node, *CLASSES, *objects)
        pod = make_pod("p", "default").node("a")
        for name in claims:
            pod.volume(name, persistentVolumeClaim={"claimName": name})
        self.pod = pod.info()
        self.heard = []
        self.handle.observe = self.heard.append
        self.plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout_s), self.handle)
        self.state = CycleState()
        assert self.plugin.pre_filter(self.state, self.pod) is None
        self.handle.cache.assume(self.pod, "a")
        assert self.plugin.reserve(self.state, self.pod, "a") is None
        self.steps = self.plugin.pre_bind(self.state, self.pod, "a")
        self.effect = next(self.steps)
        self.status = ()

    def answer(self, answer=None):
        """Go on with an answer; the status once it has ended."""
        try:
            self.effect = self.steps.send(answer if answer is not None else Answer(1))
        except StopIteration as ended:
            self.status = ended.value

    def see(self, *objects):
        """Let the watch bring these."""
        for obj in objects:
            self.handle.objects.put(type(obj).__name__, obj)

    def finish(self):
        """End the wait, and return the status."""
        assert isinstance(self.effect, WaitUntil)
        self.answer(self.effect.predicate())
        return self.status


def static():
    return Binding("c", objects=(STATIC_CLAIM, STATIC_VOLUME))


def dynamic():
    return Binding("d", objects=(DYNAMIC_CLAIM,))


def written(kind):
    binding = static() if kind == "static" else dynamic()
    binding.answer()
    return binding


PROMISED = volume("v", klass="static", version="4", affinity=on(ZONE, "a"), ref="c")
CLAIM_BOUND = claim("c", klass="static", version="9", volume="v")
ORDERED = claim("d", version="9", annotations={SELECTED: "a"})
PROVISIONED = claim("d", version="10", annotations={SELECTED: "a"}, volume="new")


def test_a_static_volume_is_promised_to_its_claim():
    effect = static().effect
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
    body = {
        "metadata": {"resourceVersion": "3", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": {**reference, "uid": "uid-c", "resourceVersion": "7"}},
    }
    assert effect == ApiCall("patch", "PersistentVolume", "", "v", body)


def test_a_claim_asks_to_be_provisioned_for_the_node():
    body = {"metadata": {"resourceVersion": "8", "annotations": {"volume.kubernetes.io/selected-node": "a"}}}
    assert dynamic().effect == ApiCall("patch", "PersistentVolumeClaim", "default", "d", body)


def test_volumes_are_written_before_claims_and_the_wait_has_a_deadline():
    binding = Binding("d", "c", objects=(STATIC_CLAIM, STATIC_VOLUME, DYNAMIC_CLAIM), timeout_s=30)
    assert (binding.effect.kind, binding.effect.name) == ("PersistentVolume", "v")
    binding.answer()
    assert (binding.effect.kind, binding.effect.name) == ("PersistentVolumeClaim", "d")
    binding.answer()
    assert isinstance(binding.effect, WaitUntil)
    assert binding.effect.deadline == 30.0


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_conflict_gives_back_and_says_so(kind):
    binding = static() if kind == "static" else dynamic()
    assert len(binding.handle.objects.assumed) == 1
    binding.answer(Answer(1, error='Operation cannot be fulfilled on x "y" (Conflict, HTTP 409)'))
    assert binding.status == error('Operation cannot be fulfilled on x "y" (Conflict, HTTP 409)')
    assert not len(binding.handle.objects.assumed)


def test_observers_hear_of_errors_only():
    """FindPodVolumes, AssumePodVolumes and BindPodVolumes of upstream's binder each count their own errors."""
    refused, late, bound = static(), written("static"), written("static")
    refused.answer(Answer(1, error="no"))
    assert refused.heard == [VolumeStageFailed("bind")]
    assert late.finish() is not None
    assert late.heard == [VolumeStageFailed("bind")]
    bound.see(PROMISED, CLAIM_BOUND)
    assert bound.finish() is None
    assert bound.heard == []


def test_observers_hear_of_a_binding_that_is_called_off():
    binding = written("dynamic")
    with pytest.raises(Interruption):
        binding.steps.throw(Interruption("the pod is gone"))
    assert binding.heard == [VolumeStageFailed("bind")]


def test_observers_hear_where_a_volume_is_gone_before_it_is_taken():
    binding = static()
    binding.plugin.unreserve(binding.state, binding.pod, "a")
    binding.handle.objects.remove("PersistentVolume", STATIC_VOLUME)
    other = CycleState()
    assert binding.plugin.pre_filter(other, binding.pod) is None
    assert binding.plugin.reserve(other, binding.pod, "a").code is Code.ERROR
    assert binding.heard == [VolumeStageFailed("assume")]


def test_what_was_written_stays_taken_when_a_later_write_fails():
    binding = Binding("d", "c", objects=(STATIC_CLAIM, STATIC_VOLUME, DYNAMIC_CLAIM))
    binding.answer()
    binding.answer(Answer(1, error="no"))
    assert binding.handle.objects.latest("PersistentVolume", "v").spec.claim_ref.name == "c"
    assert SELECTED not in binding.handle.objects.latest("PersistentVolumeClaim", "d", "default").metadata.annotations


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("static", [PROMISED, CLAIM_BOUND]),
        ("dynamic", [PROVISIONED, volume("new", affinity=on(ZONE, "a"))]),
    ],
)
def test_bound_ends_the_wait(kind, seen):
    binding = written(kind)
    assert not binding.effect.predicate()
    binding.see(*seen)
    assert binding.effect.predicate()
    assert binding.finish() is None


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("static", []),
        ("static", [PROMISED]),
        ("static", [PROMISED, claim("c", klass="static", volume="v", bound=False)]),
        ("static", [CLAIM_BOUND]),
        ("dynamic", []),
        ("dynamic", [ORDERED]),
        ("dynamic", [PROVISIONED]),
        ("dynamic", [claim("d", annotations={SELECTED: "a"}, volume="new", bound=False), volume("new")]),
    ],
)
def test_the_wait_goes_on_until_the_deadline(kind, seen):
    binding = written(kind)
    binding.see(*seen)
    assert not binding.effect.predicate()
    assert binding.finish() == error("binding volumes: context deadline exceeded")


AFFINITY = 'pv "{}" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'


@pytest.mark.parametrize(
    ("kind", "seen", "message"),
    [
        ("static", [volume("v", klass="static", version="4")], 'ClaimRef got reset for pv "v"'),
        ("static", [volume("v", version="4", affinity=on(ZONE, "b"), ref="c")], AFFINITY.format("v")),
        ("dynamic", [claim("d", version="9")], 'selectedNode annotation reset for PVC "d"'),
        ("dynamic", [claim("d", version="9", annotations={"x": "y"})], 'provisioning failed for PVC "d"'),
        ("dynamic", [PROVISIONED, volume("new", affinity=on(ZONE, "b"))], AFFINITY.format("new")),
    ],
)
def test_what_makes_waiting_pointless(kind, seen, message):
    binding = written(kind)
    binding.see(*seen)
    assert binding.effect.predicate()
    assert binding.finish() == error(f"binding volumes: {message}")


@pytest.mark.parametrize(
    ("kind", "gone", "message"),
    [
        ("static", STATIC_VOLUME, 'failed to check binding: persistentvolume "v" not found'),
        ("static", STATIC_CLAIM, 'failed to check binding: persistentvolumeclaim "c" not found'),
        ("dynamic", DYNAMIC_CLAIM, 'failed to check provisioning pvc: persistentvolumeclaim "d" not found'),
    ],
)
def test_objects_that_go(kind, gone, message):
    binding = written(kind)
    binding.handle.objects.remove(type(gone).__name__, gone)
    assert binding.finish() == error(f"binding volumes: {message}")


def test_a_pod_that_goes():
    binding = written("static")
    binding.handle.cache.remove_pod(binding.pod.uid)
    assert binding.finish() == error('binding volumes: pod does not exist any more: pod "p" not found')


def test_a_node_that_goes():
    binding = written("static")
    binding.handle.cache.remove_node("a")
    assert binding.finish() == error('binding volumes: failed to get node "a": node "a" not found')


def test_two_pods_with_one_claim_write_it_once_and_wait_for_the_same():
    first = dynamic()
    second = make_pod("q", "default").node("a").volume("d", persistentVolumeClaim={"claimName": "d"}).info()
    state = CycleState()
    assert first.plugin.pre_filter(state, second) is None
    first.handle.cache.assume(second, "a")
    assert first.plugin.reserve(state, second, "a") is None
    steps = first.plugin.pre_bind(state, second, "a")
    wait = next(steps)
    assert isinstance(wait, WaitUntil)
    assert not wait.predicate()
    first.answer()
    first.see(PROVISIONED, volume("new"))
    assert wait.predicate()
    assert first.finish() is None


def test_a_pod_that_gives_up_leaves_alone_what_another_has_taken():
    first = dynamic()
    second = make_pod("q", "default").node("a").volume("d", persistentVolumeClaim={"claimName": "d"}).info()
    state = CycleState()
    assert first.plugin.pre_filter(state, second) is None
    assert first.plugin.reserve(state, second, "a") is None
    first.plugin.unreserve(state, second, "a")
    taken = first.handle.objects.latest("PersistentVolumeClaim", "d", "default")
    assert taken.metadata.annotations[SELECTED] == "a"
    assert BOUND not in taken.metadata.annotations


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_asked_after_every_event_the_wait_knows_what_one_asked_for_the_first_time_knows(kind, seed):
    rng = random.Random(seed)
    binding = static() if kind == "static" else dynamic()
    prepared = binding.state.read("VolumeBinding")
    waiting = Waiting(binding.handle, binding.pod, "a", prepared.taken)
    objects, cache = binding.handle.objects, binding.handle.cache
    elsewhere, here = on(ZONE, "b"), on(ZONE, "a")
    zoned = {"affinity": here, "labels": {ZONE: "a"}, "gcePersistentDisk": {"pdName": "x"}, "klass": "static"}
    events = [
        lambda: binding.see(STATIC_CLAIM if kind == "static" else DYNAMIC_CLAIM),
        lambda: binding.see(CLAIM_BOUND, ORDERED),
        lambda: binding.see(PROVISIONED),
        lambda: binding.see(PROMISED),
        lambda: binding.see(volume("v", klass="static", version="5", affinity=elsewhere, ref="c")),
        lambda: binding.see(volume("new", affinity=here, ref="d")),
        lambda: binding.see(volume("new", affinity=elsewhere, ref="d")),
        lambda: binding.see(volume("v", version="6", ref="c", **zoned)),
        lambda: binding.see(csi_node("a", "kubernetes.io/gce-pd")),
        lambda: objects.remove("PersistentVolume", volume(rng.choice(["v", "new"]))),
        lambda: objects.remove("PersistentVolumeClaim", claim("c" if kind == "static" else "d")),
        lambda: objects.remove("CSINode", csi_node("a")),
        lambda: give_back(objects, prepared.taken),
        lambda: cache.put_node(make_node("a").label(ZONE, rng.choice("ab")).build()),
        lambda: cache.state_of(binding.pod.uid) and cache.forget(binding.pod.uid),
        lambda: cache.state_of(binding.pod.uid) or cache.assume(binding.pod, "a"),
    ]
    known = set()
    for _ in range(150):
        rng.choice(events)()
        afresh = Waiting(binding.handle, binding.pod, "a", prepared.taken)
        assert waiting.verdict() == afresh.verdict()
        known.add(afresh.verdict())
    assert len(known) > 3
