"""The HTTP side: routes, the turn engine, dialects, agents and command lines over `store`."""
