"""Which of several configurations is better for a cluster: compared, tuned, and swept over many runs."""
