"""Sessions in this process's memory: for tests, and for a server that may forget."""
