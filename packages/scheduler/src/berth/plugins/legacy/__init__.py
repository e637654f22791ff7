"""The plugins of the v1.20 generation: those that no longer exist, and today's where their rules or messages differed.

`registry.py` names them all. A plugin of today that needs no change is not here. Source throughout: release-1.20 of
pkg/scheduler/framework/plugins.
"""
