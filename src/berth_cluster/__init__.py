"""The embedded cluster: object store, API server, controllers and hollow nodes, all in memory.

Knows nothing of the scheduler; objects are kept as the JSON that clients sent.
"""
