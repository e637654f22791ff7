"""Which objects the selectors of a list let through."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.selection import make_matcher
from packages.cluster.tests.objects import EVENTS, NODES, PODS

POD = {
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
    "spec": {"nodeName": "node-1", "schedulerName": "default-scheduler", "restartPolicy": "Always"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("app=web", "", True),
        ("app=web,tier in (back)", "", False),
        ("!gone", "", True),
        ("", "spec.nodeName=node-1", True),
        ("", "spec.nodeName=", False),
        ("", "status.phase!=Succeeded,status.phase!=Failed", True),
        ("", "status.phase!=Running", False),
        ("", "metadata.name=web,metadata.namespace=default", True),
        ("", "spec.schedulerName=default-scheduler", True),
        ("", "spec.hostNetwork=false", True),
        ("app=web", "spec.restartPolicy=Never", False),
    ],
)
def test_pods(labels, fields, expected):
    assert make_matcher(PODS, labels, fields)(POD) is expected


def test_no_selector_is_no_filter():
    assert make_matcher(PODS, "", "") is None


@pytest.mark.parametrize(
    ("kind", "fields", "obj", "expected"),
    [
        (NODES, "spec.unschedulable=false", {"metadata": {"name": "n"}, "spec": {}}, True),
        (NODES, "spec.unschedulable=true", {"metadata": {"name": "n"}, "spec": {"unschedulable": True}}, True),
        (
            EVENTS,
            "involvedObject.kind=Pod,involvedObject.uid=u,reason=Scheduled,type=Normal",
            {"metadata": {}, "involvedObject": {"kind": "Pod", "uid": "u"}, "reason": "Scheduled", "type": "Normal"},
            True,
        ),
    ],
)
def test_other_kinds(kind, fields, obj, expected):
    assert make_matcher(kind, "", fields)(obj) is expected


@pytest.mark.parametrize(
    ("labels", "fields", "why"),
    [
        ("", "spec.containers=x", "field label not supported: spec.containers"),
        ("", "nonsense", "invalid field selector"),
        ("a in b", "", "unable to parse requirement"),
    ],
)
def test_selectors_that_are_refused(labels, fields, why):
    with pytest.raises(StoreError, match=why) as caught:
        make_matcher(PODS, labels, fields)
    assert caught.value.status_code == 400
