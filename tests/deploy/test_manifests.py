"""The manifests under deploy/: they are what an API server takes, they fit together, and they fit the program."""

import shutil

import click
import pytest
import yaml

from berth import __version__
from berth.cli.decision_log_flags import state_directory
from berth.cli.observe import command as observe
from berth.cli.run import command
from berth.config.load import load_config
from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES
from tests.deploy.chart import ROOT, rendered
from tests.deploy.manifests import KUSTOMIZE, by_identity, kustomized, one, static_pod, without_helm_labels
from tests.rbac import Authorizer, granted

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl, which has Kustomize, is not installed"
)
MONITORING = {"serviceMonitor": True, "rules": True, "dashboard": True}
VARIANTS = {
    "beside": {},
    "instead": {"mode": "instead"},
    "monitored": {"monitoring": MONITORING},
    "other names": {"name": "second", "schedulerName": "gpu", "namespace": "infra"},
    "a profile without a name": {"schedulerName": "gpu", "config": {"profiles": [{"plugins": {}}]}},
    "much set": {
        "replicas": 1,
        "imagePullSecrets": [{"name": "registry"}],
        "config": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]},
        "extraArgs": ["--feature-gates=GenericWorkload=true"],
        "env": [{"name": "OTEL_SERVICE_NAME", "value": "berth"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [],
        "resources": {},
        "podDisruptionBudget": {"enabled": False},
    },
    "the page": {
        "ui": {"enabled": True, "tlsSecret": "page-tls", "hostNames": ["berth.example.com"]},
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "egress": [{"ports": [{"port": 443}, {"port": 6443}]}, {"ports": [{"port": 53, "protocol": "UDP"}]}],
        },
    },
    "the page beside other names": {"name": "second", "namespace": "infra", "ui": {"enabled": True}},
    "an observer": {
        "name": "second",
        "namespace": "infra",
        "observer": {
            "enabled": True,
            "config": {"percentageOfNodesToScore": 50},
            "extraArgs": ["--scheduler-name=default-scheduler"],
        },
    },
    "shards": {"replicas": 3, "shards": 4},
    "plugins": {
        "extraVolumes": [{"name": "plugins", "persistentVolumeClaim": {"claimName": "plugins", "readOnly": True}}],
        "extraVolumeMounts": [{"name": "plugins", "mountPath": "/plugins", "readOnly": True}],
        "env": [{"name": "PYTHONPATH", "value": "/plugins"}],
        "rbac": {
            "guests": True,
            "extraRules": [{"apiGroups": ["example.com"], "resources": ["racks"], "verbs": ["list", "watch"]}],
        },
        "podLabels": {"example.com/team": "platform"},
        "podAnnotations": {"example.com/on-call": "platform"},
        "service": {"labels": {"example.com/team": "platform"}, "annotations": {"example.com/on-call": "platform"}},
    },
}
MORE_RIGHTS = {"the page", "the page beside other names", "an observer", "shards", "plugins"}
"""Variants in which there is more to be allowed."""


def documents(variant):
    return [static_pod()] if variant == "kubeadm" else rendered(**VARIANTS[variant])


@pytest.fixture(params=[*VARIANTS, "kubeadm"])
def manifests(request):
    return documents(request.param)


def pod_specs(manifests):
    return [
        each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
        for each in manifests
        if each["kind"] in ("Pod", "Deployment")
    ]


def of_the_scheduler(manifests):
    """The pod specs of the scheduler itself."""
    return [spec for spec in pod_specs(manifests) if spec["containers"][0]["name"] != "page"]


def of_the_page(manifests):
    return [spec for spec in pod_specs(manifests) if spec["containers"][0]["name"] == "page"]


# -- the two ways to install say the same ---------------------------------------------------------------------------


@needs_kubectl
@pytest.mark.parametrize("mode", ["beside", "instead"])
def test_chart_and_kustomize_make_the_same_objects(mode):
    built = by_identity(kustomized(KUSTOMIZE / {"beside": "base", "instead": "instead"}[mode]))
    charted = by_identity(rendered(mode=mode))
    assert built.keys() == charted.keys()
    for name in built:
        assert without_helm_labels(built[name]) == without_helm_labels(charted[name]), name


def with_component(component, tmp_path):
    """The base with a component, as people put them together."""
    # Kustomize takes relative paths only.
    (tmp_path / "up").symlink_to("/")
    overlay = {"resources": [f"up{KUSTOMIZE}/base"], "components": [f"up{KUSTOMIZE}/components/{component}"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return by_identity(kustomized(tmp_path))


COMPONENTS = {
    "guests": {"rbac": {"guests": True}},
    "network-policy": {"networkPolicy": {"enabled": True}},
    "page": {"ui": {"enabled": True}},
    "observer": {"observer": {"enabled": True}},
    "shards": {"replicas": 3, "shards": 4},
}
"""What the chart's values say for each component."""


@needs_kubectl
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_what_the_charts_value_is(component, tmp_path):
    built, charted = with_component(component, tmp_path), by_identity(rendered(**COMPONENTS[component]))
    assert built.keys() == charted.keys()
    for name in built:
        left, right = (without_labels(without_helm_labels(each[name])) for each in (built, charted))
        assert left == right, name


def without_labels(document):
    """Components do not label what is the scheduler's own."""
    return {**document, "metadata": {key: value for key, value in document["metadata"].items() if key != "labels"}}


@needs_kubectl
def test_they_monitor_alike(tmp_path):
    built = with_component("monitoring", tmp_path)
    charted = by_identity(rendered(monitoring=MONITORING))
    assert built.keys() == charted.keys()
    for name in built:
        left, right = (without_helm_labels(each[name]) for each in (built, charted))
        assert left.get("spec") == right.get("spec") and left.get("data") == right.get("data"), name
        assert left.get("rules") == right.get("rules") and left.get("subjects") == right.get("subjects"), name


def test_an_object_has_one_place(manifests):
    by_identity(manifests)


# -- an API server takes them ---------------------------------------------------------------------------------------


async def test_an_api_server_that_knows_every_field_takes_them(client, manifests):
    served = {(kind.api_version, kind.kind): kind for kind in RESOURCE_TYPES}
    for document in manifests:
        if document["apiVersion"] == "monitoring.coreos.com/v1":
            continue  # of the Prometheus operator; test_monitoring looks at these
        kind = served[document["apiVersion"], document["kind"]]
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
        namespace = document["metadata"].get("namespace")
        assert bool(namespace) == kind.namespaced, document["metadata"]["name"]
        if namespace not in (None, "kube-system", "default"):
            await client.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        place = f"/namespaces/{namespace}" if namespace else ""
        status, body = await client.post(f"{root}{place}/{kind.plural}?fieldValidation=Strict", document)
        assert status == 201, body


async def test_a_field_that_does_not_exist_would_be_noticed(client):
    deployment = one(rendered(), "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    path = "/apis/apps/v1/namespaces/kube-system/deployments?fieldValidation=Strict"
    status, body = await client.post(path, deployment)
    assert status == 400 and "readynessProbe" in body["message"]


# -- they fit together ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_selectors_select_the_schedulers_pods(variant):
    manifests = documents(variant)
    name = VARIANTS[variant].get("name", "berth")
    deployment = one(manifests, "Deployment", name)
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    spec = template["spec"]
    selectors = [deployment["spec"]["selector"]["matchLabels"], one(manifests, "Service", name)["spec"]["selector"]]
    selectors += [
        each["spec"]["selector"]["matchLabels"] for each in manifests if each["kind"] == "PodDisruptionBudget"
    ]
    selectors += [
        each["spec"]["podSelector"]["matchLabels"]
        for each in manifests
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == name
    ]
    selectors += [each["labelSelector"]["matchLabels"] for each in spec["topologySpreadConstraints"]]
    (term,) = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    selectors.append(term["podAffinityTerm"]["labelSelector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= labels.items()
    service_labels = one(manifests, "Service", name)["metadata"]["labels"]
    for monitor in (each for each in manifests if each["kind"] == "ServiceMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service_labels.items()
        assert monitor["spec"]["namespaceSelector"]["matchNames"] == [deployment["metadata"]["namespace"]]
        assert {each["port"] for each in monitor["spec"]["endpoints"]} == {"https"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_lead_to_objects(variant):
    manifests = documents(variant)
    name = VARIANTS[variant].get("name", "berth")
    spec = one(manifests, "Deployment", name)["spec"]["template"]["spec"]
    assert one(manifests, "ServiceAccount", spec["serviceAccountName"])
    (volume,) = [each for each in spec["volumes"] if "configMap" in each]
    assert one(manifests, "ConfigMap", volume["configMap"]["name"])
    for binding in (each for each in manifests if each["kind"].endswith("RoleBinding")):
        subject, reference = binding["subjects"][0], binding["roleRef"]
        if subject["name"] in (name, f"{name}-page"):
            account = one(manifests, "ServiceAccount", subject["name"])
            assert subject["namespace"] == account["metadata"]["namespace"]
        if reference["name"].startswith(name):
            assert one(manifests, reference["kind"], reference["name"])


@pytest.mark.parametrize("variant", [*VARIANTS, "kubeadm"])
def test_probes_ask_where_it_serves(variant):
    for spec in of_the_scheduler(documents(variant)):
        (container,) = spec["containers"]
        (port,) = container["ports"]
        assert port["containerPort"] == 10259
        for kind, path in (("livenessProbe", "/livez"), ("startupProbe", "/livez"), ("readinessProbe", "/readyz")):
            asked = container[kind]["httpGet"]
            assert (asked["path"], asked["port"], asked["scheme"]) == (path, port["name"], "HTTPS")
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {volume["name"] for volume in spec["volumes"]}


# -- they are safe --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_pod_keeps_to_the_restricted_profile(variant):
    """The rows of "Restricted" in Kubernetes' Pod Security Standards that a Linux pod has to state or must not."""
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "projected", "secret"}
    allowed |= {"persistentVolumeClaim"}
    for spec in pod_specs(documents(variant)):
        assert not any(spec.get(field) for field in ("hostNetwork", "hostPID", "hostIPC"))
        assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} <= allowed
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and not context.get("privileged")
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "hostPort" not in str(container["ports"])


def test_nothing_can_be_written_but_tmp_and_the_decision_log(manifests):
    for spec in of_the_page(manifests):
        (container,) = spec["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")] == ["/tmp"]
    for spec in of_the_scheduler(manifests):
        for container in spec["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            writable = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
            assert writable == {"/tmp", "/var/lib/berth"}
            (state,) = (each["value"] for each in container["env"] if each["name"] == "XDG_STATE_HOME")
            assert str(state_directory("https://10.0.0.1:443", {"XDG_STATE_HOME": state})).startswith("/var/lib/berth/")
        assert all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume)


# -- nodes can be drained ---------------------------------------------------------------------------------------------


def evictable(budget, replicas):
    """How many of so many ready replicas a drain may take: upstream's disruption controller, getExpectedPodCount."""
    spec = budget["spec"]
    (healthy,) = {*spec} & {"minAvailable", "maxUnavailable"}
    return replicas - spec["minAvailable"] if healthy == "minAvailable" else spec["maxUnavailable"]


def built_with(way, replicas, tmp_path):
    """The manifests for so many replicas; with Kustomize as people set that, by an overlay."""
    if way == "chart":
        return rendered(replicas=replicas)
    (tmp_path / "up").symlink_to("/")
    overlay = {"resources": [f"up{KUSTOMIZE}/base"], "replicas": [{"name": "berth", "count": replicas}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return kustomized(tmp_path)


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("way", ["chart", pytest.param("kustomize", marks=needs_kubectl)])
def test_a_drain_takes_one_replica_and_not_all_of_several(way, replicas, tmp_path):
    manifests = built_with(way, replicas, tmp_path)
    assert one(manifests, "Deployment")["spec"]["replicas"] == replicas
    budget = one(manifests, "PodDisruptionBudget")
    assert 1 <= evictable(budget, replicas) <= max(1, replicas - 1)
    # A replica that never becomes ready must not keep its node: by default it does while too few others are.
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


# -- they fit the program -------------------------------------------------------------------------------------------


def parsed(arguments):
    """What the command makes of a command line; raises where it refuses it."""
    with click.Context(command) as context:
        command.parse_args(context, list(arguments))
        return context.params


@pytest.mark.parametrize("variant", [*VARIANTS, "kubeadm"])
def test_the_command_takes_the_flags(variant):
    for spec in of_the_scheduler(documents(variant)):
        (container,) = spec["containers"]
        first, *flags = container.get("command", container.get("args"))
        is_observer = container["name"] == "observer"
        assert first == ("kube-scheduler" if variant == "kubeadm" else "observe" if is_observer else "run")
        if is_observer:
            assert observe.make_context("observe", flags)
            continue
        assert parsed(flags)
        with pytest.raises(click.UsageError):
            parsed([*flags, "--no-such-flag"])


@pytest.mark.parametrize(
    ("variant", "scheduler_names", "lease"),
    [
        ("beside", ["berth"], "kube-system/berth"),
        ("instead", ["default-scheduler"], "kube-system/kube-scheduler"),
        ("other names", ["gpu"], "infra/second"),
        ("a profile without a name", ["gpu"], "kube-system/berth"),
        ("much set", ["a", "b"], "kube-system/berth"),
    ],
)
def test_the_configuration_loads(variant, scheduler_names, lease):
    name = VARIANTS[variant].get("name", "berth")
    text = one(documents(variant), "ConfigMap", name)["data"]["config.yaml"]
    config = load_config(yaml.safe_load(text), "the ConfigMap")
    assert [profile.scheduler_name for profile in config.profiles] == scheduler_names
    election = config.leader_election
    assert election.leader_elect
    assert f"{election.resource_namespace}/{election.resource_name}" == lease
    assert config.client_connection.qps == 50


def test_versions_agree():
    chart = yaml.safe_load((ROOT / "deploy/helm/berth/Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    (image,) = yaml.safe_load((KUSTOMIZE / "base/kustomization.yaml").read_text())["images"]
    assert image["newTag"] == __version__
    assert static_pod()["spec"]["containers"][0]["image"] == f"{image['name']}:{__version__}"
    (container,) = pod_specs(rendered())[0]["containers"]
    assert container["image"] == f"{image['name']}:{__version__}"


def test_the_static_pod_is_kubeadms_but_for_the_image_and_its_rights():
    """kubeadm v1.36, cmd/kubeadm/app/phases/controlplane/manifests.go, getSchedulerCommand and getSchedulerSpec."""
    pod = static_pod()
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("kube-scheduler", "kube-system")
    assert pod["metadata"]["labels"] == {"component": "kube-scheduler", "tier": "control-plane"}
    spec = pod["spec"]
    assert (spec["hostNetwork"], spec["priorityClassName"]) == (True, "system-node-critical")
    (container,) = spec["containers"]
    conf = "/etc/kubernetes/scheduler.conf"
    assert container["command"] == [
        "kube-scheduler",
        f"--authentication-kubeconfig={conf}",
        f"--authorization-kubeconfig={conf}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={conf}",
        "--leader-elect=true",
    ]
    assert {"name": "kubeconfig", "mountPath": conf, "readOnly": True} in container["volumeMounts"]
    assert {"name": "kubeconfig", "hostPath": {"path": conf, "type": "FileOrCreate"}} in spec["volumes"]
    assert {container[probe]["httpGet"]["host"] for probe in container if probe.endswith("Probe")} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("mode", "own", "other"), [("beside", "berth", "kube-scheduler"), ("instead", "kube-scheduler", "berth")]
)
def test_only_the_lease_of_the_configuration_may_be_taken(mode, own, other):
    roles = Authorizer(rendered(mode=mode))
    for verb in ("get", "update"):
        assert roles.allows(verb, "coordination.k8s.io", "leases", "kube-system", own)
        assert not roles.allows(verb, "coordination.k8s.io", "leases", "kube-system", other)
        assert not roles.allows(verb, "coordination.k8s.io", "leases", "default", own)


@pytest.mark.parametrize("variant", [each for each in VARIANTS if each not in MORE_RIGHTS])
def test_whatever_the_names_the_same_is_granted(variant):
    def outline(manifests):
        return {(grant.verb, grant.group, grant.resource, bool(grant.name)) for grant in granted(manifests)}

    assert outline(documents(variant)) == outline(rendered())


def test_an_observer_may_read_and_nothing_else():
    of_it = [each for each in documents("an observer") if each["metadata"]["name"].startswith("second-observer")]
    assert {grant.verb for grant in granted(of_it)} == {"get", "list", "watch"}
    bound = {each["roleRef"]["name"] for each in of_it if each["kind"].endswith("Binding")}
    assert bound == {"second-observer", "system:auth-delegator", "extension-apiserver-authentication-reader"}


@needs_kubectl
def test_an_observer_can_be_had_alone():
    alone = by_identity(kustomized(KUSTOMIZE / "observer"))
    assert {kind for _, kind, *_ in alone} == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding", "ConfigMap", "Deployment", "Service",
    }  # fmt: skip
