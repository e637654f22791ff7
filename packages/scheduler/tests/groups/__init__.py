"""Pod groups: gangs, placements, preemption on behalf of a group."""
