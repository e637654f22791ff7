"""The questions that a cluster is asked, each with its request, its answer, and how the answer is told."""
