"""What a scheduler did, kept: the decision log with its stories of pods, and recordings that can be replayed."""
