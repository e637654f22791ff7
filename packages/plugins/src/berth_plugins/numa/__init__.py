"""Placing pods by the NUMA zones of nodes: NodeResourceTopologyMatch, whose parts tell its story in this order.

| module | does |
| --- | --- |
| `topology` | reads what a NodeResourceTopology says of a node |
| `requests` | says what a pod asks of zones |
| `alignment` | says whether one node's zones have room for a pod, and what they lack |
| `scores` | scores one node's zones by a strategy |
| `fingerprint` | computes the fingerprint of the pods of a node |
| `cache` | keeps what is known of each node: as reported, less what is reserved, resynced by fingerprints |
| `explanations` | says in numbers why nodes were rejected, and how much less would do |
| `node_resource_topology_match` | is the plugin |
"""
