"""The manifests under deploy/, built as people build them, and questions about them."""

import subprocess

import yaml

from tests.deploy.chart import ROOT
from tests.deploy.strict_yaml import documents_of

KUSTOMIZE = ROOT / "deploy/kustomize"
MANAGED = ("app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")
"""The labels that Helm adds."""


def kustomized(directory, kubectl="kubectl"):
    answer = subprocess.run([kubectl, "kustomize", directory], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return documents_of(answer.stdout)


def static_pod():
    (pod,) = documents_of((ROOT / "deploy/kubeadm/kube-scheduler.yaml").read_text())
    return pod


def identity(document):
    meta = document["metadata"]
    return (document["apiVersion"], document["kind"], meta.get("namespace", ""), meta["name"])


def by_identity(documents):
    found = {identity(document): document for document in documents}
    assert len(found) == len(documents)
    return found


def one(documents, kind, name="berth"):
    (found,) = [each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def without_helm_labels(document):
    """What the object is, whatever installed it. Texts of YAML or JSON in a ConfigMap are compared by what they say."""
    meta = dict(document["metadata"])
    meta["labels"] = {name: value for name, value in meta.get("labels", {}).items() if name not in MANAGED}
    rest = {**document, "metadata": meta}
    if document["kind"] == "ConfigMap":
        rest["data"] = {name: yaml.safe_load(text) for name, text in document["data"].items()}
    return rest
