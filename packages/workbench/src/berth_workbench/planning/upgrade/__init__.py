"""In which order to upgrade nodes, how many at once, and with how many surge nodes.

`search` is the entry point, `plan` the result.
"""
