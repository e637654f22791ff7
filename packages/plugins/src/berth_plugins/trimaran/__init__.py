"""The Trimaran plugins, which place pods by the measured load of nodes, as a load watcher tells it.

`metrics.py` reads what the load watcher says, `requests.py` what pods ask for; the four plugins each have a module.
"""
