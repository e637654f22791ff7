"""What the roles under deploy/ grant, read as the API server's RBAC authorizer reads it."""

from typing import NamedTuple

import yaml

from tests.paths import ROOT

KUSTOMIZE = ROOT / "deploy/kustomize"
MANIFESTS = (
    KUSTOMIZE / "base/rbac.yaml",
    KUSTOMIZE / "components/policy/role.yaml",
    KUSTOMIZE / "components/shards/role.yaml",
)


class Grant(NamedTuple):
    verb: str
    group: str
    resource: str
    namespace: str
    """Empty: in every one."""
    name: str
    """Empty: of every name."""


def documents():
    """The base, with the lease that configurations name by default, as `deploy/kustomize/components/instead` has it."""
    found = [each for manifest in MANIFESTS for each in yaml.safe_load_all(manifest.read_text())]
    for rule in (rule for each in found for rule in each.get("rules", ())):
        if "leases" in rule["resources"] and "resourceNames" in rule:
            rule["resourceNames"] = [name.replace("berth", "kube-scheduler") for name in rule["resourceNames"]]
    return found


def granted(manifests):
    """Everything that the roles among these manifests allow, one combination each."""
    found = set()
    for role in manifests:
        if role["kind"] not in ("ClusterRole", "Role"):
            continue
        namespace = role["metadata"].get("namespace", "")
        for rule in role["rules"]:
            found |= {
                Grant(verb, group, resource, namespace, name)
                for verb in rule["verbs"]
                for group in rule.get("apiGroups", ())
                for resource in rule.get("resources", ())
                for name in rule.get("resourceNames", [""])
            }
    return found


class Authorizer:
    """Says whether the service account may do something."""

    def __init__(self, manifests=None):
        self._granted = granted(documents() if manifests is None else manifests)

    def allows(self, verb, group, resource, namespace="", name=""):
        wanted = {(place, one) for place in ("", namespace) for one in ("", name)}
        return any(Grant(verb, group, resource, *each) in self._granted for each in wanted)
