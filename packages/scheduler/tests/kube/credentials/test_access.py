"""From kubeconfig and pod to a ClusterAccess: each field used, each mistake named before the first request."""

import base64

import pytest
import yaml

from berth.api.errors import ApiError
from berth.api.resources import RESOURCES
from berth.kube.credentials.access import in_cluster_access, load_access
from berth.kube.credentials.kubeconfig import KubeconfigError, NoKubeconfigError
from berth.kube.credentials.sources import Credential
from berth.kube.http.client import HttpTransport
from packages.scheduler.tests.kube.http.test_client import Recorder
from packages.scheduler.tests.kube.servers import Certificates, ec, key_pem, serving

NO_ENVIRONMENT = {"HOME": "/nonexistent"}


def write(directory, cluster=None, user=None, name="config"):
    path = directory / name
    document = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def access(directory, cluster=None, user=None, **options):
    return load_access(str(write(directory, cluster, user)), environ=NO_ENVIRONMENT, **options)


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode()


async def test_token(tmp_path):
    found = access(tmp_path, user={"token": "t"})
    assert await found.credential() == Credential(token="t")
    assert found.server == "https://10.0.0.1:6443" and found.proxy == ""
    assert found.description == f"context 'x' of {tmp_path / 'config'}"


async def test_token_file_is_relative_to_the_kubeconfig_and_beats_the_token(tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    found = access(tmp_path, user={"token": "t", "tokenFile": "token"})
    assert (await found.credential()).token == "from-file"


def test_impersonation(tmp_path):
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scopes/x": ["1", "2"]}}
    assert access(tmp_path, user=user).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes%2Fx", "1"),
        ("Impersonate-Extra-scopes%2Fx", "2"),
    )


@pytest.mark.parametrize("as_data", [False, True], ids=["files", "data"])
@pytest.mark.usefixtures("each_way")
async def test_certificates_reach_the_server(tmp_path, as_data):
    made = Certificates(tmp_path)
    certificate, key = made.issue("me")
    files = {"certificate-authority": made.ca, "client-certificate": certificate, "client-key": key}
    fields = {
        (f"{field}-data" if as_data else field): (encoded(path) if as_data else path.name)
        for field, path in files.items()
    }
    ca = {field: value for field, value in fields.items() if field.startswith("certificate-authority")}
    user = {field: value for field, value in fields.items() if field not in ca}
    async with serving(Recorder(), made.server_context(ask_client=True)) as url:
        transport = HttpTransport(access(tmp_path, {**ca, "server": url}, user))
        assert await transport.get(RESOURCES["Node"], "", "n") == b"{}"
        await transport.close()


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({"server": ""}, {}, "cluster 'c': server: is not set"),
        ({"server": "ftp://x"}, {}, "cluster 'c': server: 'ftp://x' is not the URL"),
        ({"server": "https://x:port"}, {}, "cluster 'c': server: 'https://x:port' is not the URL"),
        (
            {"certificate-authority": "no.crt"},
            {},
            "cluster 'c': certificate-authority: cannot read .*no.crt: No such file",
        ),
        ({"certificate-authority-data": "%%%"}, {}, "cluster 'c': certificate-authority-data: is not valid base64"),
        ({"certificate-authority-data": "YWJj"}, {}, "cluster 'c': certificate-authority: holds no certificate in PEM"),
        (
            {"certificate-authority": "config", "certificate-authority-data": "YWJj"},
            {},
            "certificate-authority: is given together with certificate-authority-data",
        ),
        (
            {"certificate-authority-data": "YWJj", "insecure-skip-tls-verify": True},
            {},
            "insecure-skip-tls-verify: cannot be combined",
        ),
        ({"proxy-url": "socks5://p:1"}, {}, "cluster 'c': proxy-url: .* SOCKS"),
        ({"proxy-url": "p:1"}, {}, "cluster 'c': proxy-url: 'p:1' is not the URL of a proxy"),
        ({}, {"username": "a", "password": "b"}, "user 'u': username: basic authentication is not supported"),
        ({}, {"auth-provider": {"name": "gcp"}}, "user 'u': auth-provider: is not supported.*exec"),
        ({}, {"token": "a b"}, "user 'u': token: contains white space"),
        ({}, {"tokenFile": "absent"}, "user 'u': tokenFile: cannot read .*absent"),
        ({}, {"tokenFile": "empty"}, "user 'u': tokenFile: .*empty is empty"),
        ({}, {"client-certificate-data": "YWJj"}, "user 'u': client-key: is not set, but client-certificate is"),
        ({}, {"client-key-data": "YWJj"}, "user 'u': client-certificate: is not set, but client-key is"),
        (
            {},
            {"client-certificate-data": "YWJj", "client-key-data": "YWJj"},
            "user 'u': client-certificate: certificate and key cannot be used together",
        ),
        ({}, {"exec": {"command": "x"}}, r"user 'u': exec\.apiVersion: is not set"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, r"user 'u': exec\.command: must name"),
        (
            {},
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            r"exec\.apiVersion: is 'client.authentication.k8s.io/v1alpha1'; supported are",
        ),
        (
            {},
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}},
            r"exec\.interactiveMode: must be given",
        ),
        (
            {},
            {"token": "t", "exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1beta1"}},
            "exec: cannot be combined with token",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, cluster, user, words):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(KubeconfigError, match=words) as caught:
        access(tmp_path, cluster, user)
    assert str(tmp_path / "config") in str(caught.value)


def test_an_encrypted_key_is_refused_and_nobody_asked(tmp_path):
    made = Certificates(tmp_path)
    certificate, _ = made.issue("me")
    (tmp_path / "locked.key").write_bytes(key_pem(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    with pytest.raises(KubeconfigError, match=r"client-certificate: .*encrypted"):
        access(tmp_path, user={"client-certificate": certificate.name, "client-key": "locked.key"})


class TestWhichOne:
    def test_the_file_given_must_exist(self, tmp_path):
        with pytest.raises(KubeconfigError, match="No such file"):
            load_access(str(tmp_path / "absent"), environ={"KUBECONFIG": str(write(tmp_path))})

    def test_then_the_environment(self, tmp_path):
        listed = f"{tmp_path / 'absent'}:{write(tmp_path)}"
        environ = {"KUBECONFIG": listed, "KUBERNETES_SERVICE_HOST": "1.2.3.4"}
        assert load_access(environ=environ).server == "https://10.0.0.1:6443"

    def test_where_the_environment_names_none_that_is_there_nobody_else_is_asked(self, tmp_path):
        (tmp_path / ".kube").mkdir()
        write(tmp_path / ".kube")
        pod_directory(tmp_path)
        for environ in ({"HOME": str(tmp_path)}, POD_ENVIRONMENT):
            environ = {**environ, "KUBECONFIG": f"{tmp_path / 'absent'}:/nope"}
            with pytest.raises(KubeconfigError, match=r"/absent and /nope \(from KUBECONFIG\) do not exist") as told:
                load_access(environ=environ, service_account_dir=tmp_path)
            assert not isinstance(told.value, NoKubeconfigError)

    def test_then_the_pod(self, tmp_path):
        pod_directory(tmp_path)
        assert load_access(environ=POD_ENVIRONMENT, service_account_dir=tmp_path).server == "https://10.96.0.1:443"

    def test_then_home(self, tmp_path):
        (tmp_path / ".kube").mkdir()
        write(tmp_path / ".kube")
        assert load_access(environ={"HOME": str(tmp_path)}).server == "https://10.0.0.1:6443"

    def test_none_at_all(self):
        with pytest.raises(KubeconfigError, match=r"no cluster to talk to: /a .*KUBECONFIG.*--kubeconfig"):
            load_access(environ={**NO_ENVIRONMENT, "KUBECONFIG": "/a"})

    def test_master_replaces_the_server(self, tmp_path):
        assert access(tmp_path, master="https://other:1").server == "https://other:1"

    def test_master_alone(self):
        assert load_access(master="http://127.0.0.1:8080", environ=NO_ENVIRONMENT).server == "http://127.0.0.1:8080"
        assert load_access(master="127.0.0.1:8080", environ=NO_ENVIRONMENT).server == "http://127.0.0.1:8080"

    def test_proxy_from_the_environment(self, tmp_path):
        path = str(write(tmp_path))
        assert load_access(path, environ={"HTTPS_PROXY": "http://p:3128"}).proxy == "http://p:3128"
        path = str(write(tmp_path, {"proxy-url": "http://mine:1"}))
        assert load_access(path, environ={"HTTPS_PROXY": "http://p:3128"}).proxy == "http://mine:1"


POD_ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", **NO_ENVIRONMENT}


def pod_directory(path):
    Certificates(path)
    (path / "token").write_text("service-account-token")
    return path


class TestInCluster:
    async def test_token_and_ca_of_the_service_account(self, tmp_path):
        found = in_cluster_access(POD_ENVIRONMENT, pod_directory(tmp_path))
        assert (await found.credential()).token == "service-account-token"
        context = found.tls_context(Credential())
        assert context is not None and len(context.get_ca_certs()) == 1

    def test_ipv6(self, tmp_path):
        environ = {**POD_ENVIRONMENT, "KUBERNETES_SERVICE_HOST": "fd00::1"}
        assert in_cluster_access(environ, pod_directory(tmp_path)).server == "https://[fd00::1]:443"

    @pytest.mark.parametrize("missing", ["token", "ca.crt"])
    def test_what_is_missing_is_named(self, tmp_path, missing):
        (pod_directory(tmp_path) / missing).unlink()
        with pytest.raises(KubeconfigError, match=f"in-cluster configuration: {missing}: cannot read"):
            in_cluster_access(POD_ENVIRONMENT, tmp_path)

    def test_not_in_a_pod(self, tmp_path):
        with pytest.raises(KubeconfigError, match="not in a pod"):
            in_cluster_access({}, tmp_path)


async def test_an_unauthorized_answer_is_an_api_error(tmp_path):
    from packages.scheduler.tests.kube.http.test_client import TestUnauthorized

    async with serving(TestUnauthorized.accepting("other")) as url:
        transport = HttpTransport(access(tmp_path, {"server": url}, {"token": "t"}))
        with pytest.raises(ApiError, match="Unauthorized"):
            await transport.get(RESOURCES["Node"], "", "n")
        await transport.close()
