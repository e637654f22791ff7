"""Talking to an API server: transport, credentials, list and watch, events, leader election."""
