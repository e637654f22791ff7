"""The live process: informers feed the core, its effects are carried out, and people and probes can look at it."""
