"""Moves of running pods that make a cluster better, each proven by the scheduler's own plugins, in the order given.

`rebalance.rebalance` is the way in: a situation and a request go in, a plan comes out, which `commands` puts into words
for a shell. Nothing here changes a cluster.
"""
