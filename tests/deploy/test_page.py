"""The page in a cluster: its flags are those of the command, and its roles allow what it asks for and no more."""

import inspect

import click
import msgspec
import pytest

from berth.cli import connection
from berth_workbench.cli.ui import command
from berth_workbench.page.access import READ_PATH
from berth_workbench.page.guard import SIGN_IN
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workbench.sources.live import LiveSource
from berth_workbench.sources.source import SourceError
from tests.deploy.chart import rendered
from tests.deploy.manifests import one
from tests.rbac import granted


def page(**values):
    return rendered(ui={"enabled": True, **values})


def container(**values):
    return one(page(**values), "Deployment", "berth-page")["spec"]["template"]["spec"]["containers"][0]


def rules(name="berth-page", **values):
    return one(page(**values), "ClusterRole", name)["rules"]


def parsed(arguments):
    with click.Context(command) as context:
        command.parse_args(context, list(arguments))
        return context.params


def test_without_the_switch_there_is_none():
    assert not [each for each in rendered() if "page" in each["metadata"]["name"]]


def test_the_command_takes_the_flags():
    name, *flags = container()["args"]
    assert name == command.name
    given = parsed(flags)
    assert (given["host"], given["port"], given["lease"]) == ("0.0.0.0", 8443, "kube-system/berth")
    assert given["hosts"] == ("berth-page.kube-system.svc",)
    assert not given["server"] and not given["token"]  # people sign in with tokens of the cluster
    given = parsed(container(hostNames=["berth.example.com"], tlsSecret="page-tls")["args"][1:])
    assert given["hosts"][-1] == "berth.example.com"
    assert (given["tls_cert_file"], given["tls_private_key_file"]) == (
        "/etc/berth-page/tls.crt",
        "/etc/berth-page/tls.key",
    )
    with pytest.raises(click.UsageError):
        parsed([*flags, "--no-such-flag"])


def test_the_certificate_of_a_secret_is_mounted_where_it_is_looked_for():
    spec = one(page(tlsSecret="page-tls"), "Deployment", "berth-page")["spec"]["template"]["spec"]
    (volume,) = (each for each in spec["volumes"] if "secret" in each)
    (mount,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == volume["name"])
    assert volume["secret"]["secretName"] == "page-tls" and mount == {
        "name": volume["name"],
        "mountPath": "/etc/berth-page",
        "readOnly": True,
    }


def test_the_service_leads_to_the_page_and_not_to_the_scheduler():
    documents = page()
    labels = one(documents, "Deployment", "berth-page")["spec"]["template"]["metadata"]["labels"]
    scheduler = one(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    selector = one(documents, "Service", "berth-page")["spec"]["selector"]
    assert selector.items() <= labels.items() and not selector.items() <= scheduler.items()
    for document in documents:
        found = document.get("spec", {}).get("selector")
        if document["metadata"]["name"] == "berth" and isinstance(found, dict):
            assert not found.get("matchLabels", found).items() <= labels.items(), document["kind"]
    for selector in connection.SELECTORS:  # by which a scheduler's pod is looked for
        key, _, value = selector.partition("=")
        assert labels.get(key) != value
    (port,) = one(documents, "Service", "berth-page")["spec"]["ports"]
    assert port["targetPort"] == container()["ports"][0]["name"]


def test_probes_ask_for_nothing_that_needs_a_session():
    assert SIGN_IN  # whatever is asked for over HTTP is answered with a refusal or with the form
    for probe in ("readinessProbe", "livenessProbe"):
        assert container()[probe]["tcpSocket"] == {"port": "https"}


# -- what it may do -------------------------------------------------------------------------------------------------


METHODS = {"nodes", "node", "pods", "pending", "recent", "story", "plugins", "sample", "configuration"}
FIRST_OF_SEVERAL = {"/debug/plugins", "/debug/shadows"}
REPLY = msgspec.defstruct("Reply", [("status", int), ("body", bytes)])


async def test_it_may_ask_the_scheduler_for_what_it_shows_and_for_nothing_else():
    asked = set()

    async def ask(path):
        asked.add(path.partition("?")[0])
        # What is asked for in a row with something else is answered, so that the rest is asked for, too.
        return REPLY(200 if path in FIRST_OF_SEVERAL else 500, b"{}")

    async def send(path, body):
        assert (path.partition("?")[0], body) == ("/fit", b"{}")
        return REPLY(500, b"{}")

    source = LiveSource("test", ask, send=send)
    arguments = {"namespace": "default", "name": "web-0"}
    for method in METHODS:
        function = getattr(source, method)
        takes = inspect.signature(function).parameters
        with pytest.raises(SourceError):
            await function(**{name: value for name, value in arguments.items() if name in takes})
    with pytest.raises(SourceError):
        await source.fit(b"{}")
    posted = [rule["nonResourceURLs"] for rule in rules() if rule["verbs"] == ["post"]]
    assert posted == [["/fit"]]
    allowed = [url for rule in rules() if rule["verbs"] == ["get"] for url in rule.get("nonResourceURLs", ())]
    assert {rule for rule in allowed if not any(is_allowed(path, rule) for path in asked)} == set()
    assert {path for path in asked if not any(is_allowed(path, rule) for rule in allowed)} == set()


def is_allowed(path, rule):
    """As RBAC has it: a star at the end stands for whatever follows."""
    return path.startswith(rule[:-1]) if rule.endswith("*") else path == rule


def test_every_method_that_asks_is_tried():
    public = {name for name, value in vars(LiveSource).items() if not name.startswith("_") and callable(value)}
    assert public - METHODS == {"fit", "snapshot"}


def test_for_trials_it_may_list_what_a_snapshot_has_and_nothing_else():
    listed = {(each.group, each.resource) for each in granted([one(page(), "ClusterRole", "berth-page")])}
    assert listed == {(resource.group, resource.plural) for resource in TAKEN.values()}
    assert {each.verb for each in granted([one(page(), "ClusterRole", "berth-page")])} == {"list"}
    assert granted([one(page(trials=False), "ClusterRole", "berth-page")]) == set()


def test_it_finds_the_scheduler_by_its_lease_and_reaches_its_pod():
    """A WebSocket begins with GET, and from v1.35 on `create` is asked for as well.

    Source: the feature gate AuthorizePodWebsocketUpgradeCreatePermission.
    """
    for values, lease in (({}, "berth"), ({"mode": "instead"}, "kube-scheduler"), ({"shards": 4}, "berth-shard-0")):
        documents = rendered(ui={"enabled": True}, **values)
        role = one(documents, "Role", "berth-page")
        assert role["metadata"]["namespace"] == "kube-system"
        assert {(each.verb, each.resource, each.name) for each in granted([role])} == {
            ("get", "leases", lease),
            ("get", "pods", ""),
            ("list", "pods", ""),
            ("get", "pods/portforward", ""),
            ("create", "pods/portforward", ""),
        }
        args = one(documents, "Deployment", "berth-page")["spec"]["template"]["spec"]["containers"][0]["args"]
        assert f"--lease=kube-system/{lease}" in args


def test_it_may_ask_who_somebody_is_and_changes_nothing():
    bound = {
        (each["kind"], each["roleRef"]["name"])
        for each in page()
        if each["kind"].endswith("Binding") and each["subjects"][0]["name"] == "berth-page"
    }
    assert bound == {
        ("ClusterRoleBinding", "berth-page"),
        ("ClusterRoleBinding", "system:auth-delegator"),
        ("RoleBinding", "berth-page"),
    }


def test_who_looks_needs_what_the_page_asks_about():
    assert rules("berth-page-viewer") == [{"nonResourceURLs": [READ_PATH], "verbs": ["get"]}]
