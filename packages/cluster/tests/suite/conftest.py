"""A namespace of its own for each spec, in a cluster of three nodes that all share, as upstream's suite has it."""

import pytest

from packages.cluster.tests.suite.client import Client, condition

CRD = "CustomResourceDefinition"


@pytest.fixture(scope="session")
def everything(scheduled_cluster):
    client = Client(scheduled_cluster)
    yield client
    client.close()


@pytest.fixture
def cluster(everything, namespace_name):
    """The shared cluster, seen from a namespace that ends with the spec."""
    everything.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_name}})
    yield everything.in_namespace(namespace_name)
    everything.delete("Namespace", namespace_name)
    everything.until_gone("Namespace", namespace_name)


class Definitions:
    """Custom resources of a spec, in a group of its own."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.group = f"{cluster.namespace}.example.com"
        self.created = []

    def document(self, kind="Foo", schema=None, versions=("v1",), scope="Namespaced", group=None, **version_fields):
        group = group or self.group
        plural = kind.lower() + "s"
        schema = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}", "labels": {"of": self.cluster.namespace}},
            "spec": {
                "group": group,
                "scope": scope,
                "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": version == versions[0],
                        "schema": {"openAPIV3Schema": schema},
                        **version_fields,
                    }
                    for version in versions
                ],
            },
        }

    def create(self, kind="Foo", *arguments, **named):
        made = self.cluster.create(self.document(kind, *arguments, **named))
        self.created.append(made["metadata"]["name"])
        return self.cluster.until(CRD, made["metadata"]["name"], lambda obj: condition(obj, "Established") == "True")


@pytest.fixture
def definitions(cluster):
    """CustomResourceDefinitions that end with the spec."""
    made = Definitions(cluster)
    yield made
    for name in made.created:
        if cluster.exists(CRD, name):
            cluster.delete(CRD, name)
            cluster.until_gone(CRD, name)
