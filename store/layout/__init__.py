"""How state becomes documents and documents become state. Pure: no I/O, no clock, no ids made here."""
