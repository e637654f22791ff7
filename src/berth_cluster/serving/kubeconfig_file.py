"""Writes the kubeconfig with which kubectl and any client reach the embedded API server."""

import base64
import os
from pathlib import Path

import yaml

CLUSTER_NAME = "berth"


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
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(config, file, sort_keys=False)
    unfinished.replace(path)
