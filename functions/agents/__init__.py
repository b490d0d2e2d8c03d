"""Agents: what answers a turn. `base` says what one is, `load` finds the configured one, the rest are ready-made."""
