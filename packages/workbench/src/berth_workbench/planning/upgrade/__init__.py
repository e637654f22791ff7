"""In which order to upgrade nodes, how many at once, and with how many nodes more for the time.

`search` is the way in, `plan` what comes out.
"""
