"""Checking what is stored, document by document, and repairing what can be without inventing or dropping any state."""
