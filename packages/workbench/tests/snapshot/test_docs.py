"""The role in the documentation allows what taking a snapshot asks for, and nothing else."""

import re

import yaml

from berth_workbench.snapshot.kept_fields import TAKEN
from tests.paths import DOCS

PAGE = DOCS / "snapshots.md"


def test_the_role_is_for_the_kinds_that_are_taken() -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    rules = yaml.safe_load(found[1])["rules"]
    granted = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    assert granted == {(each.group, each.plural) for each in TAKEN.values()}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
