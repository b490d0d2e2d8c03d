"""Commands that are run from a shell; nothing that is served imports them."""
