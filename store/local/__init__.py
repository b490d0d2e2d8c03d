"""What the memory and the file backend share: the semantics of `store.database`, without any storage."""
