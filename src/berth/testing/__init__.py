"""What tests of Berth and of plugins for it are made of: builders, a virtual clock, an in-memory transport."""
