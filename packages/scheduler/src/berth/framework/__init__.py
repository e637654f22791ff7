"""The plugin contract: what a plugin is and may answer, and how plugins are found, checked and registered."""
