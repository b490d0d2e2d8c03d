"""The class that a third party subclasses whose store is a `Database` of documents under our sessions."""

import pytest

from store.conformance.database_commits import CommitCases
from store.conformance.database_moments import MomentCases
from store.conformance.database_queries import QueryCases
from store.conformance.database_reads import ReadCases
from store.conformance.database_watches import WatchCases
from store.database import Database


class DatabaseConformance(CommitCases, ReadCases, MomentCases, QueryCases, WatchCases):
    """Everything that `store.database` promises. A subclass, named `Test…`, overrides the fixture `database`."""

    @pytest.fixture
    def database(self) -> Database:
        """A new, empty database; closed by who made it."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture `database`.")
