"""Durable sessions for AI agents: everything about them that is not HTTP."""
