"""What deploy/rbac.yaml grants, read as the API server's RBAC authorizer reads it."""

from pathlib import Path
from typing import NamedTuple

import yaml

MANIFEST = Path(__file__).parents[1] / "deploy" / "rbac.yaml"


class Grant(NamedTuple):
    verb: str
    group: str
    resource: str
    namespace: str
    """Empty: in every one."""
    name: str
    """Empty: of every name."""


def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def granted():
    """Everything that the roles in the manifest allow, one combination each."""
    found = set()
    for role in documents():
        if role["kind"] not in ("ClusterRole", "Role"):
            continue
        namespace = role["metadata"].get("namespace", "")
        for rule in role["rules"]:
            found |= {
                Grant(verb, group, resource, namespace, name)
                for verb in rule["verbs"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for name in rule.get("resourceNames", [""])
            }
    return found


class Authorizer:
    """Says whether the service account may do something."""

    def __init__(self):
        self._granted = granted()

    def allows(self, verb, group, resource, namespace="", name=""):
        wanted = {(place, one) for place in ("", namespace) for one in ("", name)}
        return any(Grant(verb, group, resource, *each) in self._granted for each in wanted)
