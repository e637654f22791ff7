"""What would have to change for pending pods to fit: the least changes, each carried out before it is offered.

A pod and a cluster in memory go in (`what_would_help`), `Help` comes out, for the whole workload where there is one.
What may help is proposed from what the filters say of one pod, kind by kind and the least first: a single edit, more
nodes, another object, a pod that goes, moves, a priority, fewer replicas. Each proposal is carried out on the whole
group, counted and taken back in one place (`consequences`), and offered only where all pods of the workload have a
place and nobody as important has lost his. How it works, in the order of the modules:

| module | does |
| --- | --- |
| `needs` | what a change is made of: what single thing of a pod rules nodes out, and how pod or node could give way |
| `sources/` | finds these needs, a module for each group of plugins; of others, the plugin's own words are given |
| `group` | which pods a question is about, and the workload's manifest with a changed template |
| `standing` | the members of a gang that have room and wait for the others, where the filters see them |
| `lacks` | why the next member of a gang has no place beside the others, node by node |
| `filters` | asks the filters about the pod, or about a part of it |
| `proposals` | a list of changes, how each is told, and what objects would be then |
| `consequences` | carries a change out, with controllers and the scheduler: who has a place then, and who pays |
| `findings` | tries proposals until one helps, or the smallest number of something, and keeps what was found |
| `edits` | single edits of the pod and of nodes |
| `additions` | nodes more, and objects that are missing |
| `objects` | what claims could ask for, how large the group must be, how many replicas can run, what plugins name |
| `departures` | which pod would have to go, and which priority would make others go |
| `prospects` | whether it is never or not now, and what the pod waits for |
| `patches` | patches that kubectl takes |
| `words` | commands and lists for people |
| `claims` | why a claim has no devices, as the allocator says device by device |
| `search` | the whole search, for one pod or for all that is pending |
| `asked` | which pods somebody means who names a pod, a workload or a group, or gives manifests |
"""
