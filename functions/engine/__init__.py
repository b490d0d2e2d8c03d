"""Runs turns: agent, events, heartbeats, aborts, settle. Knows no HTTP."""
