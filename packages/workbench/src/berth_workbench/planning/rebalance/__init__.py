"""Moves of running pods that make a cluster better, each proven by the scheduler's own plugins, in the order given.

`rebalancing.rebalance` is the way in: a snapshot and a request go in, a plan comes out. `executing` carries one out.
"""
