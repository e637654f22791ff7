"""Each question as a tool: what it takes and returns, by the SDK's client, beside its command's `-o json`.

The commands are typed anew here, in their own flags, so that an argument which does not arrive makes a difference.
"""

import asyncio
import json

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.mcp.tools import MORE
from berth_workbench.questions.table import all_questions
from berth_workbench.snapshot.snapshot import read_cluster
from packages.workbench.tests.mcp.asking import answer, asking, refusal, server_about
from packages.workbench.tests.questions.every import GROUPS, QUESTIONS, WEB, crowded

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
       "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}]}}  # fmt: skip
LARGE = msgspec.json.decode(msgspec.json.encode(POD).replace(b"200m", b"9"))
USAGE = {"default/web": {"cpu": "100m", "memory": "1Gi"}, "default/app1": {"cpu": "50m", "memory": "1Mi"}}
PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit",
                                    "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}],
}  # fmt: skip
DAY = {"pods": 100, "nodes": 4, "load": 0.5, "services": 5}
ALL = {"replace_all": True}
CASES = [
    ("survive", {}, "survive"),
    ("survive", {"pairs": True, "kinds": ["zone"], "at_most": 1}, "survive --pairs --of zone --at-most 1"),
    ("wait", {"durations": {"default/app1": 600.0}}, "wait --durations durations.json"),
    ("wait", {"pods": ["wait-1"], "within": 2}, "wait wait-1 --within 2"),
    ("whatif", {"changes": ["lose-zone a", "drain n1"]}, "whatif --lose-zone a --drain n1"),
    ("whatif", {"manifests": WEB.decode(), "namespace": "shop", "seed": 7}, "whatif -f manifests -n shop --seed 7"),
    ("capacity", {"manifests": [POD], "at_most": 5}, "capacity -f pod.json --at-most 5"),
    ("capacity", {"manifests": [POD], "changes": ["remove-nodes n1"]}, "capacity -f pod.json --remove-nodes n1"),
    ("rebalance", {"goal": "empty-nodes", "method": "greedy"}, "rebalance --goal empty-nodes --method greedy"),
    ("rebalance", {"goal": "free-shape", "manifests": [POD], "nodes": ["n1", "n2"], "max_moves": 3, "method": "greedy"},
     "rebalance --goal free-shape -f pod.json --nodes n1,n2 --max-moves 3 --method greedy"),
    ("autoscale", {"groups": {"groups": GROUPS}, "used": 0.9}, "autoscale --groups groups.json --used 0.9"),
    ("upgrade-plan", {"pools": ["large"], "max_surge": 0}, "upgrade-plan --pool large --max-surge 0"),
    ("shrink", {"usage": USAGE, "margin": 50}, "shrink --usage usage.json --margin 50"),
    ("compare", {"a": "default", "b": PACKED, "load": ALL, "seeds": 1}, "compare default b --replace-all --seeds 1"),
    ("tune", {"objectives": ["packing.cpu"], "load": ALL, "budget": 6, "seeds": 1},
     "tune --objective packing.cpu --replace-all --budget 6 --seeds 1"),
    ("check", {"head": WEB.decode(), "namespace": "shop"}, "check --head manifests -n shop"),
    ("check", {"head": [POD], "base": WEB.decode()}, "check --head pod.json --base manifests"),
    ("explain", {"pods": ["wait-1"]}, "explain wait-1 --what-would-help"),
    ("explain", {"pods": ["rs/wait", "app1-0"]}, "explain rs/wait app1-0 --what-would-help"),
    ("explain", {"namespace": "default"}, "explain --what-would-help -n default"),
    ("explain", {"manifests": [LARGE]}, "explain -f large.json --what-would-help"),
    ("explain", {"manifests": WEB.decode(), "namespace": "shop"}, "explain -f manifests -n shop --what-would-help"),
    ("simulate", {"workload": DAY, "sample_s": 7200}, "simulate day.trace.gz --sample 7200"),
]  # fmt: skip
NO_CLUSTER = ("simulate",)
ANSWERED = {"verdict", "state", "pages"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("asked")
    (path / "cluster.json").write_bytes(b"\n".join(each.json() for each in crowded().documents))
    (path / "manifests").write_bytes(WEB)
    for name, value in (("pod.json", POD), ("large.json", LARGE), ("usage.json", USAGE), ("b", PACKED),
                        ("durations.json", {"default/app1": 600.0}), ("groups.json", {"groups": GROUPS})):  # fmt: skip
        (path / name).write_text(json.dumps(value))
    drawn = ["trace", "generate", "--pods", "100", "--nodes", "4", "--load", "0.5", "--services", "5"]
    assert CliRunner().invoke(main, [*drawn, "-o", str(path / "day.trace.gz")]).exit_code == 0
    return path


@pytest.fixture(scope="module")
def server(directory):
    return server_about(read_cluster([directory / "cluster.json"]))


@pytest.mark.parametrize(("name", "given", "typed"), CASES, ids=[typed for *_, typed in CASES])
async def test_an_answer_is_that_of_the_command(server, directory, monkeypatch, name, given, typed):
    monkeypatch.chdir(directory)
    cluster = [] if name in NO_CLUSTER else ["--cluster", "cluster.json"]
    printed = CliRunner().invoke(main, [*typed.split(), *cluster, "-o", "json"])
    expected = json.loads(printed.stdout)
    assert printed.exit_code == 0, printed.output
    async with asking(server) as client:
        found = (await answer(client, name, **given)).structured_content
        while found.get("pages"):
            pointer, page = next(iter(found["pages"].items()))
            await _read_on(client, found, pointer, page)
    if name == "explain":  # one by itself is printed without a list around it
        expected = {"answers": expected if isinstance(expected, list) else [expected], "isComplete": True, "notes": []}
        expected["answers"][0].pop("assumed", None)
    expected.pop("assumed", None)
    for step in expected.get("steps", ()) if name == "whatif" else ():
        step["step"] = step["step"].replace("apply manifests", "apply the manifests")
    for finding in (*expected.get("findings", ()), *found.get("findings", ())) if name == "check" else ():
        finding.pop("place", None), finding.pop("file", None), finding.pop("line", None)  # there are no files here
    left = {key: each for key, each in found.items() if key in expected or key not in {*ANSWERED, "assumed"}}
    assert left == expected


async def _read_on(client, document, pointer, page):
    more = (await answer(client, MORE, cursor=page["cursor"])).structured_content
    place = document
    for part in pointer.split("/")[1:]:
        place = place[int(part) if isinstance(place, list) else part]
    place += more["more"]
    del document["pages"][pointer]
    document["pages"] |= more.get("pages", {})


def test_every_question_is_among_the_cases():
    assert {name for name, *_ in CASES} == {each.name for each in QUESTIONS.values()}
    assert {each.name for each in all_questions()} == {each.name for each in QUESTIONS.values()}


async def test_tools_have_schemas_that_hold_for_the_cases_and_say_that_they_only_read(server):
    async with asking(server) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert tools.keys() == {MORE, *(each.name for each in QUESTIONS.values())}
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.annotations.read_only_hint and not tool.annotations.destructive_hint
        assert tool.description
    for name, given, _ in CASES:
        jsonschema.Draft202012Validator(tools[name].input_schema).validate(json.loads(json.dumps(given)))


async def test_the_fields_of_a_request_are_arguments_but_for_files_and_addresses_of_the_machine(server):
    async with asking(server) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    for question in QUESTIONS.values():
        there = tools[question.name].input_schema["properties"]
        for field in question.fields():
            assert (field.name in there) is not field.ask.is_of_machine, (question.name, field.name)
            if field.name in there:
                assert "-" in field.ask.help or there[field.name]["description"] == field.ask.help
                assert there[field.name].get("minimum", field.ask.least) == field.ask.least
    assert "dask" not in tools["tune"].input_schema["properties"], "it would run code of whoever answers there"
    assert "trace" not in tools["wait"].input_schema["properties"], "it would read any file of the machine"


async def test_what_a_schema_refuses_is_refused_and_what_it_takes_is_taken(server):
    """The schema is checked by jsonschema, the arguments by the server: both have to say the same."""
    wrong = [
        ("survive", {"pairs": 1}), ("survive", {"kinds": ["rack"]}), ("survive", {"kinds": "zone"}),
        ("survive", {"at_most": -1}), ("survive", {"at_most": 1_000_001}), ("survive", {"at_most": 1.5}),
        ("survive", {"nodes": 3}), ("survive", {"changes": "drain n1"}), ("survive", {"changes": [1]}),
        ("survive", {"namespace": "No!"}), ("survive", {"seed": None}), ("survive", {"for_seconds": 0}),
        ("rebalance", {}), ("rebalance", {"goal": "tidy"}), ("rebalance", {"goal": "even-out", "method": "luck"}),
        ("capacity", {}), ("capacity", {"manifests": 7}), ("capacity", {"manifests": ["text"]}),
        ("check", {}), ("check", {"head": None}),
        ("autoscale", {"groups": []}), ("simulate", {"workload": {"pds": 3}}), ("compare", {"a": "packed.yaml"}),
    ]  # fmt: skip
    async with asking(server) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        for name, given in wrong:
            assert not jsonschema.Draft202012Validator(tools[name].input_schema).is_valid(given), (name, given)
            error = await refusal(client, name, **given)
            assert error["code"] == "argument"
            jsonschema.Draft202012Validator(tools[name].output_schema).validate({"error": error})


async def test_a_refusal_says_where_it_is_wrong_and_what_to_do(server):
    async with asking(server) as client:
        assert (await refusal(client, "survive", pears=True))["message"].endswith("did you mean pairs?")
        assert (await refusal(client, "survive", at_most="3"))["message"] == "at_most: Expected `int`, got `str`"
        assert "nod-1" in (await refusal(client, "whatif", changes=["drain nod-1"]))["message"]
        assert "line 2" in (await refusal(client, "whatif", changes=["drain n1", "fry n2"]))["message"]
        said = await refusal(client, "capacity", manifests=[{**POD, "spec": {"containres": []}}])
        assert said["code"] == "refused" and "containres" in said["message"]
        assert "no metrics" in (await refusal(client, "shrink"))["message"]
        said = await refusal(client, "compare", a={**PACKED, "profiles": 3})
        assert said["code"] == "refused" and "profiles" in said["message"]


async def test_every_answer_says_how_old_its_state_is_and_that_names_are_data(directory):
    header = {"kind": "BerthSnapshot", "format": 2, "taken": "2026-01-01T00:00:00Z"}
    file = directory / "taken.snapshot"
    file.write_bytes(b"\n".join([msgspec.json.encode(header), *(each.json() for each in crowded().documents)]))
    async with asking(server_about(read_cluster([file]), "taken.snapshot")) as client:
        found = await answer(client, "wait")
        state = found.structured_content["state"]
        assert state["taken"] == "2026-01-01T00:00:00Z" and not state["isLive"]
        assert state["ageSeconds"] > 24 * 3600 and "never" not in state["source"]
        assert "data from the cluster" in state["untrusted"]
        text = found.content[0].text.splitlines()
        assert text[0] == found.structured_content["verdict"]
        assert any("s old (2026-01-01T00:00:00Z)" in line for line in text)
        assert all(each.meta["berth.dev/untrusted"] for each in found.content)
        for uri in (
            "berth://nodes",
            "berth://workloads",
            "berth://pending",
            "berth://nodes/n1",
            "berth://pods/default/wait-1",
        ):
            content = (await client.read_resource(uri)).contents[0]
            assert json.loads(content.text)["state"]["ageSeconds"] > 24 * 3600 and content.meta["berth.dev/untrusted"]


async def test_progress_and_cancellation_are_the_protocols(server):
    told = []

    async def tell(progress, total, message):
        told.append((progress, total, message))

    async with asking(server) as client:
        long = {"objectives": ["packing.cpu"], "load": ALL, "budget": 100_000}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await client.call_tool("tune", long, progress_callback=tell)
        progress = [each for each, *_ in told]
        assert progress == sorted(set(progress)) and progress, "each says more than the one before"
        assert all("trying configurations" in message for *_, message in told)
        assert (await answer(client, "wait")).structured_content["verdict"], "the next one has its turn"


async def test_an_answer_that_was_cut_short_has_no_verdict_to_go_by(server):
    async with asking(server) as client:
        given = {"objectives": ["packing.cpu"], "load": ALL, "budget": 100_000, "for_seconds": 3}
        found = (await answer(client, "tune", **given)).structured_content
    assert found["isComplete"] is False and found["verdict"].startswith("Not known")


async def test_resources_are_those_of_the_cluster(server):
    async with asking(server) as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]

        async def read(uri):
            return json.loads((await client.read_resource(uri)).contents[0].text)

        nodes = (await read("berth://nodes"))["nodes"]
        workloads = (await read("berth://workloads"))["workloads"]
        pending, one = await read("berth://pending"), await read("berth://nodes/n1")
        story = await read("berth://pods/default/wait-1")
        with pytest.raises(Exception, match="there is no node n99"):
            await read("berth://nodes/n99")
        with pytest.raises(Exception, match="there is no such resource"):
            await read("file:///etc/passwd")
    assert listed == ["berth://nodes", "berth://workloads", "berth://pending"]
    assert templates == ["berth://nodes/{name}", "berth://pods/{namespace}/{name}"]
    on_nodes = [each.struct() for each in crowded().of("Pod")]
    assert [each["name"] for each in nodes] == [f"n{at}" for at in range(8)]
    assert [each["pods"] for each in nodes] == [
        sum(pod.spec.node_name == f"n{at}" for pod in on_nodes) for at in range(8)
    ]
    assert nodes[1]["zone"] == "b" and nodes[1]["allocatable"]["cpu"] == 4000
    assert {(each["name"], each["pods"], each["pending"]) for each in workloads} == {
        ("default/web", 4, 0), *((f"default/app{at}", 4, 0) for at in range(1, 6)), ("default/wait", 4, 4)
    }  # fmt: skip
    assert pending["pods"] == 4 and one["name"] == "n1" and "wait-1" in story["pod"]
