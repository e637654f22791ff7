"""The scheduling framework: what a plugin is, what it may say, and how a profile's plugins are run."""
