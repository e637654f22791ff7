"""The volume plugins: VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits.

Each plugin has a file of its own (`binding`, `restrictions`, `zone`, `limits`). `claims` says what a pod's volumes ask
for and `migration` what in-tree volumes have become. `binder` decides what a pod would get on a node, and
`binding_columns` the same for all nodes; `volume_index`, `node_rows`, `uses` and `limit_columns` keep what these look
up. `assuming` takes volumes, `writing` makes it so.
"""
