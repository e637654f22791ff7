"""What a pod names and the cluster does not have, and what may have been meant. The clusters say what is true."""

import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.decisions.named_in_vain import in_sentences, named_in_vain
from berth.framework.work_budget import WorkBudget

NODES = [
    make_node("web-0").label("pool", "web").label("kubernetes.io/arch", "amd64").capacity(cpu="4"),
    make_node("big-0").label("pool", "big").label("kubernetes.io/arch", "amd64").capacity(cpu="4"),
]


def named(kind, name, **fields):
    metadata = {"name": name, "uid": name}
    if kind in ("PersistentVolumeClaim", "ResourceClaim"):
        metadata["namespace"] = "default"
    return decode(kind, {"metadata": metadata, **fields})


def claim(name="data", **spec):
    return named("PersistentVolumeClaim", name, spec=spec)


def devices(of_class, name="gpus"):
    request = {"name": "r", "exactly": {"deviceClassName": of_class}}
    return named("ResourceClaim", name, spec={"devices": {"requests": [request]}})


def selecting(**labels):
    return make_pod("p").node_selector(labels)


CASES = {
    "a claim": (make_pod("p").claim("data"), [], "The PersistentVolumeClaim data does not exist."),
    "a claim of another name": (
        make_pod("p").claim("dta"),
        [claim(storageClassName="slow"), named("StorageClass", "slow", provisioner="x")],
        "The PersistentVolumeClaim dta does not exist; did you mean data?",
    ),
    "a class": (
        make_pod("p").claim("data"),
        [claim(storageClassName="fast"), named("StorageClass", "slow", provisioner="x")],
        "The StorageClass fast of the claim data does not exist.",
    ),
    "the class of a claim that is bound": (
        make_pod("p").claim("data"),
        [claim(storageClassName="fast", volumeName="disk"), named("PersistentVolume", "disk")],
        "",
    ),
    "a volume": (
        make_pod("p").claim("data"),
        [claim(storageClassName="fast", volumeName="disk")],
        "The PersistentVolume disk, which data is bound to, does not exist.",
    ),
    "devices": (make_pod("p").resource_claim("g", "gpus"), [], "The ResourceClaim gpus does not exist."),
    "a class of devices": (
        make_pod("p").resource_claim("g", "gpus"),
        [devices("gpu.example.org"), named("DeviceClass", "gpu.example.com")],
        "The DeviceClass gpu.example.org of the claim gpus does not exist; did you mean gpu.example.com?",
    ),
    "a namespace": (
        make_pod("p", "shp"),
        [named("Namespace", "shop"), named("Namespace", "default")],
        "The namespace shp does not exist; did you mean shop?",
    ),
    "no namespace is known": (make_pod("p", "shp"), [], ""),
    "a label": (selecting(pool="wbe"), [], "No node has the label pool=wbe; did you mean pool=web?"),
    "a label that is there": (selecting(pool="web"), [], ""),
    "the name of a label": (selecting(pol="web"), [], "No node has the label pol=web; did you mean pool?"),
    "nothing like it": (selecting(disk="ssd"), [], "No node has the label disk=ssd."),
    "another kind of node": (
        make_pod("p").node_selector({"kubernetes.io/arch": "arm64"}),
        [],
        "No node has the label kubernetes.io/arch=arm64.",
    ),
    "two things": (
        selecting(disk="ssd").claim("data"),
        [],
        "The PersistentVolumeClaim data does not exist. No node has the label disk=ssd.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_named_with_what_may_have_been_meant(case):
    pod, objects, told = CASES[case]
    core = VirtualCluster(*(node.build() for node in NODES), *objects).core
    assert in_sentences(each.sentence for each in named_in_vain(core, pod.info())) == told


def test_without_nodes_no_label_is_said_to_be_missing():
    assert list(named_in_vain(VirtualCluster().core, selecting(pool="web").info())) == []


def test_a_label_of_a_node_that_is_gone_is_missing():
    cluster = VirtualCluster(*(node.build() for node in NODES))
    assert list(named_in_vain(cluster.core, selecting(pool="big").info())) == []
    cluster.delete("Node", "big-0")
    (missing,) = named_in_vain(cluster.core, selecting(pool="big").info())
    assert missing.sentence == "no node has the label pool=big"


def test_without_work_left_what_is_missing_is_told_without_a_hint():
    core = VirtualCluster(*(node.build() for node in NODES), claim("data")).core
    pods = [make_pod("p").claim("dta").info(), make_pod("q").claim("dat").info()]
    work = WorkBudget(15)
    told = [each.sentence for pod in pods for each in named_in_vain(core, pod, work)]
    assert told == [
        "the PersistentVolumeClaim dta does not exist; did you mean data?",
        "the PersistentVolumeClaim dat does not exist",
    ]
