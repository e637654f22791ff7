"""Persistent volumes and their claims: binding, and protection while they are in use."""
