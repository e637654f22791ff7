"""What is typed for a question is read as strictly as an API server reads it, and what comes from a cluster is not.

Fields, words and paths are those of Kubernetes' API reference; what a server says of unknown and repeated fields is in
its documentation of field validation (`fieldValidation=Strict`).
"""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node

NODES = [make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="110").document for number in (1, 2)]
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": TEMPLATE["spec"]}
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def changed(document, path, value):
    """A copy of a document with another value somewhere; None takes what is there away."""
    copy = json.loads(json.dumps(document))
    *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    holder = copy
    for key in above:
        holder = holder[key] if isinstance(key, int) else holder.setdefault(key, {})
    if value is None:
        del holder[last]
    elif isinstance(holder, list) and last == len(holder):
        holder.append(value)
    else:
        holder[last] = value
    return copy


@pytest.fixture
def berth(tmp_path):
    """Runs a command with files, which are given as documents, or as text, after the option that names them."""

    def go(*words):
        args = []
        for number, word in enumerate(words):
            if not isinstance(word, str) or "\n" in word:
                file = tmp_path / f"{number}.yaml"
                file.write_text(word if isinstance(word, str) else json.dumps(word))
                word = str(file)
            args.append(word)
        return CliRunner().invoke(main, args)

    return go


def refusal(result):
    """The one line that a command ends with."""
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


def cluster(*more):
    return {"apiVersion": "v1", "kind": "List", "items": [*NODES, *more]}


TEMPLATE_SPEC = "spec.template.spec"
MISTAKES = {
    "a misspelt field of the template": (f"{TEMPLATE_SPEC}.toleratons", [{"operator": "Exists"}],
        f"unknown field {TEMPLATE_SPEC}.toleratons; did you mean tolerations?"),
    "a misspelt field of the workload": ("spec.replica", 3, "unknown field spec.replica; did you mean replicas?"),
    "a field in the wrong place": ("spec.nodeSelector", {"a": "b"}, "unknown field spec.nodeSelector"),
    "a field of a list's element": (f"{TEMPLATE_SPEC}.containers.0.resource", {},
        f"unknown field {TEMPLATE_SPEC}.containers[0].resource; did you mean resources?"),
    "a field at the top": ("spek", {}, "unknown field spek; did you mean spec?"),
    "a field of the metadata": ("metadata.lables", {}, "unknown field metadata.lables; did you mean labels?"),
    "a toleration's operator": (f"{TEMPLATE_SPEC}.tolerations", [{"key": "a", "operator": "Exist"}],
        f'{TEMPLATE_SPEC}.tolerations[0].operator: unsupported value "Exist"; did you mean Exists?'),
    "a word like no other": (f"{TEMPLATE_SPEC}.restartPolicy", "Perhaps",
        f'{TEMPLATE_SPEC}.restartPolicy: unsupported value "Perhaps"; it can be Always, OnFailure or Never'),
    "text for a number": ("spec.replicas", "three", "spec.replicas: a whole number is expected, not text"),
    "a flag for a number": ("spec.replicas", True, "spec.replicas: a whole number is expected, not true or false"),
    "a fraction for a number": ("spec.replicas", 1.5, "spec.replicas: a whole number is expected, not a fraction"),
    "a number beyond 32 bits": ("spec.replicas", 2**31, "spec.replicas: 2147483648 is out of range"),
    "a flag for text": (f"{TEMPLATE_SPEC}.nodeSelector", {"ssd": True},
        f"{TEMPLATE_SPEC}.nodeSelector[ssd]: text is expected, not true or false"),
    "an object for a list": (f"{TEMPLATE_SPEC}.tolerations", {"key": "a"},
        f"{TEMPLATE_SPEC}.tolerations: a list is expected, not an object"),
    "what is no quantity": (f"{TEMPLATE_SPEC}.containers.0.resources.requests.cpu", "much",
        f"{TEMPLATE_SPEC}.containers[0].resources.requests[cpu]: 'much' is not a quantity"),
    "a resource without a domain": (f"{TEMPLATE_SPEC}.containers.0.resources.requests.gpu", "1",
        f"{TEMPLATE_SPEC}.containers[0].resources.requests[gpu]: a resource without a domain; others have a domain"),
    "a misspelt resource": (f"{TEMPLATE_SPEC}.containers.0.resources.requests.memmory", "1",
        f"{TEMPLATE_SPEC}.containers[0].resources.requests[memmory]: a resource without a domain; did you mean mem"),
    "a missing topology key": (f"{TEMPLATE_SPEC}.affinity",
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}},
        f"{TEMPLATE_SPEC}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: is"),
    "a missing selector": ("spec.selector", None, "spec.selector is missing"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("command", [("capacity",), ("whatif",), ("explain", "--what-would-help")], ids=" ".join)
def test_the_line_names_file_object_field_and_what_was_meant(berth, command, mistake):
    path, value, said = MISTAKES[mistake]
    line = refusal(berth(*command, "--cluster", cluster(), "-f", changed(DEPLOYMENT, path, value)))
    where, _, rest = line.partition(".yaml: Deployment default/web: ")
    assert where.startswith("Error: /") and rest.startswith(said), line


@pytest.mark.parametrize(
    "words",
    [
        ("autoscale", "--groups", {"groups": [{"name": "g", "like": "n1"}]}),
        ("compare", "default", "default"),
        ("tune", "--objective", "cost"),
        ("rebalance", "--goal", "free-shape"),
        ("decide",),
        ("wait",),
    ],
    ids=lambda words: words[0],
)
def test_all_that_take_manifests_read_them_so(berth, words):
    line = refusal(berth(*words, "--cluster", cluster(), "-f", changed(POD, "spec.toleratons", [])))
    assert line.endswith(".yaml: Pod default/p: unknown field spec.toleratons; did you mean tolerations?")


def test_so_does_a_scenario_that_applies_them(berth, tmp_path):
    (tmp_path / "web.json").write_text(json.dumps(changed(DEPLOYMENT, "spec.replica", 3)))
    scenario = {"apiVersion": "berth.dev/v1", "kind": "Scenario", "steps": [{"apply": "web.json"}]}
    line = refusal(berth("whatif", "--cluster", cluster(), "--scenario", scenario))
    assert "web.json: Deployment default/web: unknown field spec.replica; did you mean replicas?" in line


def test_a_template_of_a_node_group_is_read_so(berth):
    template = {"metadata": {"labels": {}}, "status": {"allocatible": {"cpu": 16}}}
    groups = {"groups": [{"name": "new", "template": template}]}
    line = refusal(berth("autoscale", "--groups", groups, "--cluster", cluster(), "-f", POD))
    assert "group 'new': template: unknown field status.allocatible; did you mean allocatable?" in line


def test_several_mistakes_are_told_in_one_line(berth):
    wrong = changed(changed(DEPLOYMENT, "spec.replica", 3), f"{TEMPLATE_SPEC}.toleratons", [])
    line = refusal(berth("capacity", "--cluster", cluster(), "-f", wrong))
    assert "unknown field spec.replica; did you mean replicas?" in line
    assert "unknown field spec.template.spec.toleratons; did you mean tolerations?" in line


REPEATED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x}]}
  replicas: 3
"""


def test_a_field_that_is_there_twice_is_refused_in_yaml(berth):
    line = refusal(berth("capacity", "--cluster", cluster(), "-f", REPEATED))
    assert ".yaml:10: " in line and "replicas is given twice" in line


def test_a_field_that_is_there_twice_is_refused_in_json(berth):
    text = json.dumps(DEPLOYMENT, indent=1).replace('"replicas": 2', '"replicas": 1, "replicas": 2')
    line = refusal(berth("capacity", "--cluster", cluster(), "-f", text))
    assert "Deployment default/web: spec.replicas: is given twice" in line


def test_a_cluster_may_have_fields_of_a_newer_server(berth):
    pod = changed(changed(POD, "spec.newInTwoYears", {"a": 1}), "spec.nodeName", "n1")
    result = berth("capacity", "--cluster", cluster(pod), "-f", DEPLOYMENT)
    assert result.exit_code == 0 and "7 more fit" in result.output, result.output


def test_kinds_that_berth_does_not_know_are_passed_over_as_before(berth):
    foreign = {"apiVersion": "example.com/v1", "kind": "Anything", "metadata": {"name": "a"}, "whatever": 1}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [DEPLOYMENT, foreign, secret]}
    result = berth("whatif", "--cluster", cluster(), "-f", listed)
    assert result.exit_code == 0, result.output


def test_what_says_nothing_about_a_place_may_be_left_out(berth):
    bare = changed(changed(DEPLOYMENT, f"{TEMPLATE_SPEC}.containers.0.image", None), "apiVersion", None)
    result = berth("capacity", "--cluster", cluster(), "-f", bare)
    assert result.exit_code == 0 and "8 more fit" in result.output, result.output
