"""The embedded API server, to which manifests are applied."""

from packages.cluster.tests.serving.conftest import client, server, store

__all__ = ["client", "server", "store"]
