"""What arrives over HTTP, checked: bodies, queries, and the models they must fit. Calls no store and no agent."""
