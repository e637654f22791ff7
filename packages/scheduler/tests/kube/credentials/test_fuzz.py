"""Kubeconfigs broken at random: whatever is wrong, there is one clear line that names the file, and it holds no secret.

Every secret that a kubeconfig can hold is a marker of its own, which no message may show. Each case has to end within a
budget of work and memory. The seed of a failing case is in its name.
"""

import base64
import random
import tracemalloc

import pytest
import yaml

from berth.kube.credentials.access import load_access
from berth.kube.credentials.kubeconfig import KubeconfigError
from packages.scheduler.tests.kube.servers import Certificates
from tests.effort import calls

CASES, SEEDS = 60, 10
MAX_CALLS, MAX_CALLS_A_BYTE, MAX_BYTES = 20_000, 50, 64 << 20
LONGEST_MESSAGE = 2_000

ODD = (
    None, True, False, 0, -1, 2**70, 1.5, float("inf"), "", " ", "\n", "\x00", "\ud7ff", "é", "a" * 5_000, [], {},
    [None], [[]], {"a": {"b": []}}, "http://", "https://[::1", "https://h:99999999", "socks5://h", "ftp://h", "../etc",
    "/", "=", "%zz", "!!python/object:os.system", {"name": None}, [{"name": "u"}, {"name": "u"}], "2001-01-01", "0x10",
    "1:30",
)  # fmt: skip


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    return [path.read_bytes() for path in Certificates(tmp_path_factory.mktemp("identity")).issue("client")]


def marker(rng):
    """A secret; some of them are hard to keep apart from syntax."""
    word = f"MARK{rng.getrandbits(64):016x}"
    return rng.choice(
        [word, word, f"{word}/x", f"{word}@h", f"{word} y", f"*{word}", f"!{word}", f"&{word}", f"{word}:"]
    )


def planted(rng, identity):
    """A kubeconfig with every secret there is, and the secrets."""
    certificate, key = (base64.b64encode(part).decode() for part in identity)
    secrets = {
        name: marker(rng) for name in ("token", "password", "env", "cluster", "proxy", "provider", "data", "file")
    }
    user = {
        "token": secrets["token"],
        "password": secrets["password"],
        "client-certificate-data": certificate,
        "client-key-data": rng.choice(
            [key, key[:-7], secrets["data"], base64.b64encode(secrets["data"].encode()).decode()]
        ),
        "tokenFile": "token",
        "auth-provider": {"name": "gcp", "config": {"access-token": secrets["provider"]}},
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "no-such-plugin",
            "args": ["--token", secrets["env"]],
            "env": [{"name": "A", "value": secrets["env"]}],
            "interactiveMode": "Never",
        },
    }
    kept = rng.sample(sorted(user), rng.randint(1, 4))
    cluster = {
        "server": rng.choice(["https://127.0.0.1:1", "http://h.example", f"https://u:{secrets['cluster']}@h:6443"]),
        "proxy-url": rng.choice(["", f"http://u:{secrets['proxy']}@p:1", f"socks5://u:{secrets['proxy']}@p"]),
        "certificate-authority-data": certificate,
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {name: value for name, value in cluster.items() if value}}],
        "users": [{"name": "u", "user": {name: user[name] for name in kept}}],
    }
    return document, secrets


def break_document(rng, value):
    """Replace, remove or repeat something, somewhere."""
    holder, key = value, None
    while isinstance(holder, dict | list) and holder:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        parent, key = holder, rng.choice(list(keys))
        holder = parent[key]
        if rng.random() < 0.3:
            break
    if key is None:
        return rng.choice(ODD)
    if rng.random() < 0.2:
        del parent[key]
    else:
        parent[key] = rng.choice(ODD) if rng.random() < 0.7 else [parent[key]]
    return value


def break_text(rng, text):
    """Cut, repeat, swap or add characters."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        text = rng.choice(
            [
                lambda t, a: t[:a],
                lambda t, a: t[:a] + rng.choice("\t:{}[]*&!%@`\"'|>#\x07\n-,") + t[a:],
                lambda t, a: t[:a] + t[a + rng.randint(1, 8) :],
                lambda t, a: t[:a] + t[max(0, a - 40) : a] * rng.randint(2, 4) + t[a:],
                lambda t, _: t.replace("'", ""),
                lambda t, _: t.replace('"', ""),
            ]
        )(text, at)
    return text


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_broken_kubeconfig_is_one_clear_line(tmp_path, identity, seed):
    rng = random.Random(seed)
    path = tmp_path / "kubeconfig"
    for case in range(CASES):
        document, secrets = planted(rng, identity)
        (tmp_path / "token").write_text(secrets["file"])
        if rng.random() < 0.7:
            document = break_document(rng, document)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        if rng.random() < 0.5:
            text = break_text(rng, text)
        path.write_text(text, errors="surrogatepass")
        check(path, secrets, f"seed {seed}, case {case}:\n{text}")


def check(path, secrets, story):
    tracemalloc.start()
    try:
        said, is_affordable = read(path)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert "\n" not in said and len(said) < LONGEST_MESSAGE, f"{story}\n{said}"
    for name, secret in secrets.items():
        assert secret[:20].strip("*&!") not in said, f"{story}\n{name} is shown: {said}"
    assert is_affordable and most < MAX_BYTES, f"{story}\ntook {most >> 20} MiB"


def read(path):
    """What is said of a kubeconfig, and whether no more is done for it than its size allows."""
    said = ""

    def load():
        nonlocal said
        try:
            said = repr(load_access(str(path), environ={}).description)
        except KubeconfigError as error:
            said = str(error)
            assert str(path) in said

    made = calls(load)
    return said, made < MAX_CALLS + MAX_CALLS_A_BYTE * path.stat().st_size


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [" + "*a, " * 10 + "]",
        "users: " + "[" * 100_000,
        "users: " + "{a: " * 50_000,
        "\n".join(f"k{number}: &k{number} [{f'*k{number - 1}, ' * 9 if number else 1}]" for number in range(12)),
        "users:\n" + "- {name: u, user: {token: x}}\n" * 5_000,
        "contexts: [" + "{name: c}, " * 5_000 + "]",
        "current-context: " + "c" * 300_000,
        "\u0000" * 1000,
        "users: [{name: u, user: {exec: {env: [" + "{name: a}," * 10_000 + "]}}}]",
    ],
)
def test_a_kubeconfig_meant_to_hurt_ends_soon(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeconfigError):
        load_access(str(path), environ={})
    said, is_affordable = read(path)
    assert "\n" not in said and len(said) < LONGEST_MESSAGE and is_affordable
