"""Why pods are pending, asked by an agent: groups and claims, what changes do about it, and what cannot be asked."""

import json
import re

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource
from berth_workbench.snapshot.snapshot import read_cluster
from packages.workbench.tests.mcp.asking import answer, asking, refusal, server_about

GATES = "GenericWorkload=true,GangScheduling=true"
CLUSTER = """
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: n0}, status: {allocatable: {cpu: "2", pods: "9"}}}
- {kind: PodGroup, apiVersion: scheduling.k8s.io/v1alpha2, metadata: {name: train},
   spec: {schedulingPolicy: {gang: {minCount: 3}}}}
- {kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: gpu}}
- {kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: n0}, spec: {driver: x.com, nodeName: n0,
   pool: {name: n0, generation: 1, resourceSliceCount: 1}, devices: [{name: d0}, {name: d1}]}}
- {kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: three},
   spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 3}}]}}}
- {kind: Pod, apiVersion: v1, metadata: {name: user, uid: u}, spec: {containers: [{name: c}],
   resourceClaims: [{name: gpu, resourceClaimName: three}]}}
""" + "".join(
    f"""
- {{kind: Pod, apiVersion: v1, metadata: {{name: train-{number}, uid: u{number}}},
   spec: {{schedulingGroup: {{podGroupName: train}}, containers:
   [{{name: c, resources: {{requests: {{cpu: "1"}}}}}}]}}}}
"""
    for number in range(3)
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explained") / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture(scope="module")
def server(file):
    return server_about(read_cluster([file]), configuration=ConfigurationSource(DEFAULT, feature_gates=GATES))


@pytest.mark.parametrize("names", [["podgroup/train"], ["claim/three"], ["train-1", "user"]], ids=" ".join)
async def test_groups_and_claims_are_explained_as_the_command_does(server, file, names):
    typed = ["explain", *names, "--what-would-help", "--cluster", str(file), "--feature-gates", GATES, "-o", "json"]
    expected = json.loads(CliRunner().invoke(main, typed, catch_exceptions=False).stdout)
    async with asking(server) as client:
        found = (await answer(client, "explain", pods=names)).structured_content
    expected = expected if isinstance(expected, list) else [expected]
    expected[0].pop("assumed", None)
    assert found["answers"] == expected and found["isComplete"]


async def test_the_verdict_says_why_and_the_text_what_would_help(server):
    async with asking(server) as client:
        of_group = await answer(client, "explain", pods=["podgroup/train"])
        of_claim = await answer(client, "explain", pods=["claim/three"])
        of_all = await answer(client, "explain")
    assert "2 of 3 have a place, and none is bound before 3 have (minCount)" in of_group.structured_content["verdict"]
    assert re.search("^What would help: .*[Ll]ower minCount from 3 to 2", of_group.content[0].text, re.MULTILINE)
    assert "the most on one is 2 (n0)" in of_claim.structured_content["verdict"]
    assert of_all.structured_content["verdict"] == "2 of 2 that were asked about stay pending."
    assert all(name in of_all.content[0].text for name in ("PodGroup default/train", "default/user"))


async def test_changes_come_first(server):
    async with asking(server) as client:
        found = (
            await answer(client, "explain", changes=["add-nodes 1=n0"], pods=["podgroup/train"])
        ).structured_content
        nothing = (await answer(client, "explain", namespace="shop")).structured_content
    assert found["answers"][0]["state"] == "runs" and "all of its pods run" in found["verdict"], (
        "the third has room on the new node"
    )
    assert nothing["verdict"] == "No pod stays pending." and nothing["answers"] == []


async def test_what_cannot_be_asked_is_said(server):
    async with asking(server) as client:
        for given, said in (
            ({"pods": ["nobody"]}, "there is no pod default/nobody"),
            ({"pods": ["claim/three", "user"]}, "a claim has an answer of its own"),
            ({"pods": ["claim/thre"]}, "did you mean default/three?"),
            ({"pods": ["user"], "manifests": "kind: Pod"}, "name pods, or give manifests"),
            ({"pods": ["deploy/web"]}, "Deployment default/web has no pods in the cluster"),
            ({"manifests": "{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: a}, value: 1}"},
             "no pod and no workload in it"),
        ):  # fmt: skip
            assert said in (await refusal(client, "explain", **given))["message"]


async def test_no_description_speaks_of_the_command_line(server):
    async with asking(server) as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        said = [tool.description, json.dumps(tool.input_schema), json.dumps(tool.output_schema)]
        assert not re.search(r"(?<![\w-])--?[a-z]", "\n".join(said)), tool.name
    assert "`replace_all` also those that run" in next(each.description for each in tools if each.name == "compare")
