"""What would have to change for a pending pod to fit: the least changes, each proven by the filters.

A pod and a cluster in memory go in (`what_would_help`), `Help` comes out. How it works, in the order of the modules:

| module | does |
| --- | --- |
| `needs` | what a change is made of: what single thing of a pod rules nodes out, and how pod or node could give way |
| `sources/` | finds these needs, one module for each group of plugins |
| `gathering` | asks all sources, and gives what no source accounts for the plugin's own words |
| `proving` | tries a changed pod, node or set of pods on the cluster, and puts everything back |
| `combining` | the smallest sets of changes to the pod, to a node, or to one of each |
| `leaving` | which pods would have to go, and which priority would make them |
| `adding` | a node more, and objects that are missing |
| `freeing` | idle claims, what the pod's claims could ask for instead, how large its group must be |
| `waiting` | whether it is never or not now, and what the pod waits for |
| `patches` | patches that kubectl takes |
| `words` | the same for people |
| `helping` | the whole search |
"""
