"""The plugins of the v1.20 generation: those that are gone since, and today's where they meant or said other things.

`registry.py` names them all. A plugin of today that needs no change is not here. Source throughout: release-1.20 of
pkg/scheduler/framework/plugins.
"""
