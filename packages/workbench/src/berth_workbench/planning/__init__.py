"""Answers to what operators ask of a cluster: what if, how many more, what would help, which pods to move."""
