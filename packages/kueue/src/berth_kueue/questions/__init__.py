"""The questions of `berth kueue`, each with its request, its answer and how that is told."""
