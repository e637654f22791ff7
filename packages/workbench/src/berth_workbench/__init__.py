"""Tools that try things out with the scheduler of `berth`, on clusters in memory. The scheduler knows none of them."""
