"""The controllers' side of statuses: whose pods, what is read and written; and the definitions of what plugins follow.

Fields are those of upstream's types, which leave zeros out.
"""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from berth.controller import FollowedStatuses
from berth.testing import make_pod
from berth_plugins.capacity.elastic_quotas import ELASTIC_QUOTAS
from berth_plugins.cli import definitions, main
from berth_plugins.controllers import ElasticQuotaController, PodGroupController
from berth_plugins.coscheduling import GROUPS, LABEL
from berth_plugins.network.app_groups import APP_GROUPS
from berth_plugins.network.network_topology import NETWORK_TOPOLOGIES
from berth_plugins.numa.topology import TOPOLOGIES
from berth_plugins.sysched import PROFILES

FOLLOWED = (GROUPS, ELASTIC_QUOTAS, APP_GROUPS, NETWORK_TOPOLOGIES, TOPOLOGIES, PROFILES)


def pod(name, phase="Running", namespace="default"):
    made = make_pod(name, namespace).request(cpu="1").label(LABEL, "train")
    made.status["phase"] = phase
    return made.build()


def obj(controller, spec, **status):
    meta = {"name": "train", "namespace": "default"}
    return controller.resource.read({"metadata": meta, "spec": spec, "status": status})


def test_a_group_counts_its_pods_and_leaves_out_what_there_is_none_of():
    controller = PodGroupController()
    group = obj(controller, {"minMember": 2}, phase="Scheduling", occupiedBy="default/job", running=1, failed=1)
    assert controller.group_of(group) == controller.group_of_pod(pod("a")) == "default/train"
    assert controller.group_of_pod(pod("a", namespace="other")) == "other/train"
    assert controller.group_of_pod(make_pod("b").build()) is None
    assert controller.reconcile(group, [pod("a"), pod("b", "Succeeded")]) == {
        "phase": "Running", "occupiedBy": "default/job", "running": 1, "succeeded": 1, "failed": None,
    }  # fmt: skip


def test_a_new_group_is_pending():
    controller = PodGroupController()
    found = controller.reconcile(obj(controller, {"minMember": 2}), [])
    assert {name for name, each in found.items() if each is not None} == {"phase"}


def test_a_quota_counts_its_namespace():
    controller = ElasticQuotaController()
    quota = obj(controller, {"max": {"memory": "1Gi"}}, used={"cpu": "7"})
    assert controller.group_of(quota) == controller.group_of_pod(pod("a")) == "default"
    assert controller.reconcile(quota, [pod("a")]) == {"used": {"cpu": "1", "memory": "0"}}
    assert controller.reconcile(obj(controller, None), []) == {"used": {}}


@pytest.mark.parametrize("resource", FOLLOWED, ids=lambda resource: resource.plural)
def test_what_plugins_follow_is_defined_as_they_ask_for_it(resource):
    spec = yaml.safe_load(definitions()[resource.plural])["spec"]
    assert (spec["group"], spec["names"]["kind"], spec["names"]["plural"]) == (
        resource.group, resource.kind, resource.plural,
    )  # fmt: skip
    assert (spec["scope"] == "Namespaced") == resource.namespaced
    served = [version["name"] for version in spec["versions"] if version["served"]]
    assert served == [resource.version]


def test_no_other_definition_is_there():
    assert set(definitions()) == {resource.plural for resource in FOLLOWED}


def test_the_command_prints_all_or_those_that_are_named():
    every = CliRunner().invoke(main, ["crds"])
    assert [each["kind"] for each in yaml.safe_load_all(every.output)] == ["CustomResourceDefinition"] * len(FOLLOWED)
    some = CliRunner().invoke(main, ["crds", "podgroups"])
    assert yaml.safe_load(some.output)["metadata"]["name"] == "podgroups.scheduling.x-k8s.io"
    assert "there is no podgroup; there are appgroups, " in CliRunner().invoke(main, ["crds", "podgroup"]).output


def test_the_controller_says_what_is_wrong_with_a_kubeconfig(tmp_path):
    told = CliRunner().invoke(main, ["controller", "--kubeconfig", str(tmp_path / "nowhere")])
    assert told.exit_code == 1
    assert told.output.startswith("Error: ")


def test_the_controller_of_the_page_counts():
    page = (Path(__file__).parents[3] / "docs/plugins/controllers.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(program, names)
    controller = names["TeamController"]()
    followed = FollowedStatuses(controller)
    followed.take(controller.resource.read({"metadata": {"name": "red"}}))
    running = make_pod("a").label("team", "red")
    running.status["phase"] = "Running"
    for each in (running, make_pod("b").label("team", "red"), make_pod("c").label("team", "blue")):
        followed.take_pod(each.build())
    (place,) = followed.due
    assert followed.next_patch(place)["status"] == {"running": 1}
