"""Bad input, of every kind and to every command that reads a file: one line that says what is wrong, and no traceback.

What a configuration has wrong is a list of one line for each fault, so that here each has one.
"""

import gzip
import json

import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod

NODE = make_node("n1").capacity(cpu="4", memory="8Gi", pods="110").document
POD = make_pod("p1").request(cpu="1").document
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
    },
}

NO_FILE_OF_OURS = {
    "nothing": b"",
    "a number": b"5",
    "text": b"hello",
    "a list": b"[1, 2]",
    "bytes": bytes(range(256)),
    "UTF-16": "kind: Pod".encode("utf-16"),
    "Latin-1": b"a: \xe4",
    "half of an object": b'{"kind": "Pod"',
    "a tab": b"a:\n\t- b",
    "deep JSON": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep YAML": b"a: " + b"[" * 50_000,
    "aliases of aliases": b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)),
    "an alias inside of itself": b"&a [*a]",
    "a number of thousands of digits": b"a: " + b"9" * 6000,
    "a date that is none": b"a: 2020-99-99",
    "a tag for a date": b"a: !!timestamp x",
    "a tag for a boolean": b"a: !!bool x",
    "a tag for a number": b"a: !!int x",
    "a tag for bytes": b"a: !!binary '*'",
    "a tag for Python": b"a: !!python/object:os.system x",
    "what is not compressed": b"\x1f\x8b\x08junk",
    "keys that are no texts": b"{1: 2, null: 3}",
    "a list as key": b"? [a]\n: b",
}


@pytest.fixture
def berth(tmp_path):
    """Runs a command with files, which are given as documents or bytes after the option that names them."""

    def go(*words):
        args = []
        for number, word in enumerate(words):
            if not isinstance(word, str):
                file = tmp_path / f"{number}.yaml"
                file.write_bytes(word if isinstance(word, bytes) else json.dumps(word).encode())
                word = str(file)
            args.append(word)
        return CliRunner().invoke(main, args)

    return go


def one_line(result):
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2), result.output
    said = [line for line in result.stderr.splitlines() if line and not line.startswith(("Usage: ", "Try '"))]
    assert len(said) == 1 and len(said[0]) < 6000, result.stderr
    return said[0]


def cluster(*objects):
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


@pytest.mark.parametrize("what", NO_FILE_OF_OURS)
@pytest.mark.parametrize(
    "command",
    [
        ("whatif", "--cluster", None, "-f", DEPLOYMENT),
        ("whatif", "--cluster", cluster(NODE), "-f", None),
        ("whatif", "--cluster", cluster(NODE), "--scenario", None),
        ("capacity", "--cluster", cluster(NODE), "-f", None),
        ("compare", "default", "default", "--cluster", None),
        ("compare", "default", "default", "--trace", None),
        ("simulate", None),
        ("trace", "show", None),
        ("sweep", None),
        ("tune", "--objective", "cost", "--cluster", None),
        ("rebalance", "--goal", "empty-nodes", "--cluster", None),
        ("rebalance", "--goal", "empty-nodes", "--cluster", cluster(NODE, POD), "--prices", None),
        ("replay", None),
        ("snapshot", None, "-o", "-"),
        ("decide", "--cluster", None),
    ],
    ids=lambda command: f"{command[0]} {command.index(None)}",
)
def test_files_that_are_something_else(berth, command, what):
    one_line(berth(*(NO_FILE_OF_OURS[what] if word is None else word for word in command)))


def with_part(document, path, value):
    """A copy of a document, with another value somewhere."""
    copy = json.loads(json.dumps(document))
    *above, last = path.split(".")
    holder = copy
    for key in above:
        holder = holder[int(key) if key.isdigit() else key]
    holder[int(last) if last.isdigit() else last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata", 5),
        ("metadata.name", [5]),
        ("spec", []),
        ("spec.replicas", -1),
        ("spec.replicas", 10**30),
        ("spec.replicas", "three"),
        ("spec.replicas", True),
        ("spec.selector", {"matchLabels": 5}),
        ("spec.selector", {"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        ("spec.template", None),
        ("spec.template.spec.containers", [None]),
        ("spec.template.spec.containers.0.resources", {"requests": {"cpu": "much"}}),
        ("spec.template.spec.containers.0.resources", {"requests": {"cpu": {}}}),
        ("spec.template.spec.tolerations", 5),
        ("spec.template.spec.affinity", "near"),
    ],
)
@pytest.mark.parametrize("command", ["whatif", "capacity"])
def test_manifests_with_something_else_in_them(berth, command, path, value):
    one_line(berth(command, "--cluster", cluster(NODE), "-f", with_part(DEPLOYMENT, path, value)))


@pytest.mark.parametrize(
    "step",
    [5, {}, {"drain": 5}, {"drain": "n1", "cordon": "n1"}, {"addNodes": {"like": "n1", "count": -1}}, {"fly": "n1"},
     {"scale": {"workload": "web", "replicas": []}}, {"apply": "9" * 5000}, {"apply": []}, {"loseZone": None}],
    ids=str,
)  # fmt: skip
def test_steps_that_are_none(berth, step):
    scenario = {"apiVersion": "berth.dev/v1", "kind": "Scenario", "steps": [step]}
    one_line(berth("whatif", "--cluster", cluster(NODE), "--scenario", scenario))


@pytest.mark.parametrize(
    "words",
    [
        ("whatif", "--cluster", "x" * 5000),
        ("whatif", "--cluster", cluster(NODE), "-f", "x" * 5000),
        ("replay", "x" * 5000),
        ("whatif", "--cluster", cluster(NODE), "--drain", "nosuch"),
        ("whatif", "--cluster", cluster(NODE), "--drain", "a in (b"),
        ("whatif", "--cluster", cluster(NODE), "--add-nodes", "9" * 400 + "=n1"),
        ("whatif", "--cluster", cluster(NODE), "--scale", "Deployment/web=-1"),
        ("whatif", "--cluster", cluster(NODE), "--taint", "n1:a=b:Never"),
        ("whatif", "--cluster", cluster(NODE), "--label", "n1:"),
        ("capacity", "--cluster", cluster(NODE), "-f", DEPLOYMENT, "--plugin", "no.such:Plugin"),
        ("capacity", "--cluster", cluster(NODE), "-f", DEPLOYMENT, "--plot", "picture.exe"),
        ("bench", b"hello"),
        ("impact", b"hello"),
        ("decide", b"[]"),
        ("decide", NO_FILE_OF_OURS["what is not compressed"]),
        ("tune", "--cluster", cluster(NODE, POD), "--objective", "beauty"),
        ("tune", "--cluster", cluster(NODE, POD), "--objective", "cost", "--jobs", "9" * 60),
        ("rebalance", "--cluster", cluster(NODE, POD), "--goal", "empty-nodes", "--node-selector", "!"),
        ("rebalance", "--cluster", cluster(NODE, POD), "--goal", "free-shape", "-f", {**POD, "spec": 5}),
        ("compare", "default", {"apiVersion": "v1", "kind": "Pod"}, "--cluster", cluster(NODE, POD)),
    ],
    ids=lambda words: " ".join(word[:20] for word in words if isinstance(word, str)),
)
def test_what_is_typed_wrong(berth, words):
    one_line(berth(*words))


@pytest.mark.parametrize("command", ["decide", "impact"])
def test_cases_that_are_cut_short(berth, command):
    assert one_line(berth(command, gzip.compress(b'{"objects": []}')[:-9])).endswith("the compressed file is cut short")


def test_args_whose_kind_is_no_text(berth):
    args = {"name": "NodeAffinity", "args": {"kind": []}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [args]}],
    }
    said = one_line(berth("whatif", "--cluster", cluster(NODE), "-f", POD, "--config", configuration))
    assert "were not of type NodeAffinityArgs, got []" in said


@pytest.mark.parametrize("command", [("decide",), ("rebalance", "--goal", "free-shape")], ids=lambda words: words[0])
def test_the_pods_of_a_list_need_not_say_that_they_are_pods(berth, command):
    pod = {key: value for key, value in POD.items() if key not in ("kind", "apiVersion")}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [pod]}
    result = berth(*command, "--cluster", cluster(NODE), "-f", pods)
    assert result.exit_code == 0, result.output


def test_the_documents_here_are_good_otherwise(berth):
    result = berth("whatif", "--cluster", cluster(NODE, POD), "-f", yaml.safe_dump(DEPLOYMENT).encode())
    assert result.exit_code == 0, result.output
