"""Interfaces of other libraries over any store of ours. Each needs the library that it is named for."""
