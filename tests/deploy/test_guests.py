"""The role for guest plugins: every custom resource that one of them follows may be read.

What is granted beyond that is there for the other plugins of kubernetes-sigs/scheduler-plugins. Source of the names:
its chart `manifests/install/charts/as-a-second-scheduler`, `templates/rbac.yaml`, of v0.35.
"""

import importlib
import pkgutil

import berth_plugins
from berth.api.custom import CustomResource
from tests.deploy.chart import rendered
from tests.rbac import Authorizer

UPSTREAM = {
    ("scheduling.k8s.io", "priorityclasses"),
    ("scheduling.x-k8s.io", "podgroups"),
    ("scheduling.x-k8s.io", "elasticquotas"),
    ("topology.node.k8s.io", "noderesourcetopologies"),
    ("appgroup.diktyo.x-k8s.io", "appgroups"),
    ("networktopology.diktyo.x-k8s.io", "networktopologies"),
    ("security-profiles-operator.x-k8s.io", "seccompprofiles"),
}
STATUSES = {("scheduling.x-k8s.io", "podgroups/status"), ("scheduling.x-k8s.io", "elasticquotas/status")}


def followed():
    """Every `CustomResource` that a module of the guests names."""
    names = [each.name for each in pkgutil.walk_packages(berth_plugins.__path__, "berth_plugins.")]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {value for value in values if isinstance(value, CustomResource)}


def test_every_kind_that_a_guest_follows_may_be_listed_and_watched():
    kinds = followed()
    assert {"PodGroup", "SeccompProfile"} <= {each.kind for each in kinds}
    roles = Authorizer(rendered(rbac={"guests": True}))
    for each in kinds:
        for verb in ("list", "watch"):
            assert roles.allows(verb, each.group, each.plural), each


def test_nothing_else_is_granted_with_them():
    plain, guests = (Authorizer(rendered(rbac={"guests": is_there}))._granted for is_there in (False, True))
    read = {(grant.group, grant.resource) for grant in guests - plain if grant.verb in ("list", "watch")}
    written = {(grant.group, grant.resource) for grant in guests - plain if grant.verb in ("patch", "update")}
    assert (read, written) == (UPSTREAM, STATUSES)
    assert {grant.verb for grant in guests - plain} == {"list", "watch", "patch", "update"}


def test_kinds_of_ones_own_plugins_may_be_added():
    mine = [{"apiGroups": ["example.com"], "resources": ["racks"], "verbs": ["list", "watch"]}]
    assert Authorizer(rendered(rbac={"extraRules": mine})).allows("watch", "example.com", "racks")
    assert not Authorizer(rendered()).allows("watch", "example.com", "racks")
