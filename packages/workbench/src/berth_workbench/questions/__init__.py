"""The questions about a cluster, each with its request, its answer, and how to present the answer."""
