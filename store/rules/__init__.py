"""Decisions, and nothing else: no I/O, no clock, no documents."""
