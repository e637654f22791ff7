"""The kubeconfig with which kubectl and any client reach the embedded API server: written, and read again."""

import base64
from pathlib import Path
from typing import NamedTuple

import yaml

from berth.serving.key_pairs import write_private

CLUSTER_NAME = "berth"


class Remembered(NamedTuple):
    """What an earlier server wrote, so that its clients need no new kubeconfig; empty and 0 where it is not known."""

    token: str
    port: int


def write_kubeconfig(path: Path, url: str, ca_pem: bytes, token: str) -> None:
    """Write the file so that only its owner can read it, all at once."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": CLUSTER_NAME,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(ca_pem).decode()},
            }
        ],
        "users": [{"name": CLUSTER_NAME, "user": {"token": token}}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": CLUSTER_NAME}}],
        "current-context": CLUSTER_NAME,
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def read_remembered(path: Path) -> Remembered:
    """Token and port of the file; whatever is not as `write_kubeconfig` writes it counts as not known."""
    try:
        config = yaml.safe_load(path.read_bytes())
        token = config["users"][0]["user"]["token"]
        port = int(str(config["clusters"][0]["cluster"]["server"]).rpartition(":")[2])
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return Remembered("", 0)
    return Remembered(token if isinstance(token, str) else "", port if 0 < port < 2**16 else 0)
