"""The embedded cluster: object store, API server, controllers and hollow nodes, all in memory.

It knows nothing of the scheduler: like any API server it keeps objects as JSON, and of `berth` it imports only the
API's structs. From the bottom up: `apimachinery` (what all objects have in common), `strategies` (what is special about
each kind), `storage` (the store), `controllers` and `hollow` (who acts on objects), `serving` (the store over HTTP),
and `embedded`, which puts a cluster together. docs/embedded-cluster.md says what it does for its users.
"""
