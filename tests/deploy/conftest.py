"""The embedded API server, to which manifests are applied."""

from tests.cluster.serving.conftest import client, server, store

__all__ = ["client", "server", "store"]
