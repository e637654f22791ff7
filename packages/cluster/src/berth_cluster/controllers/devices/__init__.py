"""Resource claims of pods, and evictions because of tainted devices."""
