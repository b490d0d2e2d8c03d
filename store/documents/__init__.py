"""The one implementation of the contract, over any `store.database.Database`."""
