"""The roles under deploy/ grant what the code does, and nothing else.

Runtime tests hold every call that they see against the manifest (`tests/runtime/world.py`); here the calls that stand
in the source are held against it, both ways.
"""

import ast
import importlib

import pytest

from berth.api.resources import RESOURCES
from berth.runtime.watched_resources import GATED_KINDS, OPTIONAL_KINDS, REQUIRED_KINDS
from tests.paths import SCHEDULER
from tests.rbac import Authorizer, documents, granted

WRITES_ELSEWHERE = {
    ("create", "pods/binding"),  # Transport.bind
    ("patch", "podgroups/status"),  # one patcher writes the status of pods and of groups
    ("patch", "persistentvolumes"),  # one function of plugins/volumes/writing.py for both kinds
    ("patch", "persistentvolumeclaims"),
    ("patch", "resourceclaims/binding"),  # what v1.36 asks of a client that patches an allocation into the status
}
"""Calls whose kind is no literal."""


DELEGATED = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
"""Calls that the cluster's own role system:auth-delegator grants."""


def calls_in_source():
    """(verb, resource) of each `ApiCall(...)` and `transport.<verb>(...)` in the scheduler, where they can be read."""
    found = set()
    for path in sorted(SCHEDULER.rglob("*.py")):
        if path.is_relative_to(SCHEDULER / "cli"):
            continue  # commands that people run with credentials of their own
        text = path.read_text()
        if "ApiCall" not in text and "_transport." not in text and "transport." not in text:
            continue
        names = vars(importlib.import_module(".".join(path.relative_to(SCHEDULER.parent).with_suffix("").parts)))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (call := read_call(node, names)) is not None:
                found.add(call)
    return found


def read_call(node, names):
    function = node.func
    if isinstance(function, ast.Name) and function.id == "ApiCall":
        verb, kind = (value_of(argument, names) for argument in node.args[:2])
        subresource = value_of(node.args[5], names) if len(node.args) > 5 else ""
        return None if kind not in RESOURCES else named(verb, RESOURCES[kind].plural, subresource)
    if not isinstance(function, ast.Attribute) or "transport" not in ast.unparse(function.value):
        return None
    resource = value_of(node.args[0], names) if node.args else None
    subresource = next((value_of(word.value, names) for word in node.keywords if word.arg == "subresource"), "")
    return named(function.attr, resource.plural, subresource) if hasattr(resource, "plural") else None


def value_of(node, names):
    try:
        return eval(compile(ast.Expression(node), "call", "eval"), dict(names))
    except (NameError, AttributeError, KeyError):
        return None  # a parameter


def named(verb, plural, subresource):
    return verb, f"{plural}/{subresource}" if subresource else plural


def followed():
    kinds = [*REQUIRED_KINDS, *OPTIONAL_KINDS, *(kind for kind, _ in GATED_KINDS)]
    return {(verb, RESOURCES[kind].plural) for kind in kinds for verb in ("list", "watch")}


def test_the_source_is_read():
    calls = calls_in_source()
    assert {("patch", "pods/status"), ("delete", "pods"), ("update", "leases"), ("create", "events")} <= calls
    assert {("patch", "resourceclaims"), ("get", "nodes"), ("get", "configmaps")} <= calls


def test_nothing_is_granted_that_the_code_does_not_do():
    used = calls_in_source() - DELEGATED | followed() | WRITES_ELSEWHERE | {("patch", "resourceclaims/status")}
    assert {(grant.verb, grant.resource) for grant in granted(documents())} == used


def test_what_the_code_does_is_granted_in_the_right_group():
    groups = {resource.plural: resource.group for resource in RESOURCES.values()}
    assert {
        (grant.group, grant.resource)
        for grant in granted(documents())
        if grant.group != groups[grant.resource.partition("/")[0]]
    } == set()


@pytest.mark.parametrize("verb", ["get", "update"])
def test_only_its_own_lease(verb):
    rbac = Authorizer()
    own = ("coordination.k8s.io", "leases", "kube-system", "kube-scheduler")
    assert rbac.allows(verb, *own)
    assert not rbac.allows(verb, "coordination.k8s.io", "leases", "kube-system", "kube-controller-manager")
    assert not rbac.allows(verb, "coordination.k8s.io", "leases", "default", "kube-scheduler")
    assert not rbac.allows("create", "coordination.k8s.io", "leases", "kube-node-lease", "node-1")


def test_reviews_are_delegated_by_the_cluster_s_own_roles():
    bound = {document["roleRef"]["name"] for document in documents() if document["kind"].endswith("Binding")}
    assert {"system:auth-delegator", "extension-apiserver-authentication-reader"} <= bound


def test_every_binding_is_for_the_service_account():
    found = documents()
    account = next(document["metadata"] for document in found if document["kind"] == "ServiceAccount")
    for document in found:
        if document["kind"].endswith("Binding"):
            assert document["subjects"] == [{"kind": "ServiceAccount", **account}]
