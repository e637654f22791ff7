"""The main path: one pod from the queue to a node, or to the reason why not, and from there to its binding."""
