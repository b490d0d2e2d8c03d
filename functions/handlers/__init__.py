"""One short function per route: request in, reply out. Decides nothing that the store or the engine decides."""
