"""The live process: informers into the core, effects out of it, and what people and probes see of it."""
