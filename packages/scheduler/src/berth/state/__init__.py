"""What the scheduler knows: node columns, pods on them, indexes, the cache, nominated pods.

One thread owns all of it; nothing here locks, sleeps or reads a clock.
"""
