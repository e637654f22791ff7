"""Decisions in words and numbers: why a pod went where it went, what nodes lack, and the log of stories."""
