"""The volume plugins: VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits.

`claims` says what a pod's volumes ask for and `migration` what in-tree volumes have become; `matching` and `binder`
decide which volumes a pod would get on a node, `writing` makes it so; each plugin has a file of its own.
"""
