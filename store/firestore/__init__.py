"""The Firestore backend: implements `store.database.Database` and knows nothing about sessions.

Import its modules only where Firestore is used: they load Google's libraries. Nothing connects before the first call.
"""
