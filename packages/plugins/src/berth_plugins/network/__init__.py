"""The network-aware plugins: pods of an application near to those that they depend on, and in the order they start in.

`app_groups.py` has the AppGroup, which says who depends on whom; `network_topology.py` the NetworkTopology, which says
what it costs from one region or zone to another; `places.py` which nodes are where.
"""
