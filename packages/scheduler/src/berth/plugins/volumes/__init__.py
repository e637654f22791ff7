"""The volume plugins: VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits.

Each plugin has a file of its own (`binding`, `restrictions`, `zone`, `limits`). `claims` says what a pod's volumes ask
for, and `migration` which CSI volumes stand for in-tree ones. `binder` decides what a pod would get on a node,
`binding_columns` decides the same for all nodes at once; `volume_index`, `node_rows`, `uses` and `limit_columns` are
the indexes that these look things up in. `assuming` takes volumes for a pod in memory, `writing` writes that to the API
server.
"""
