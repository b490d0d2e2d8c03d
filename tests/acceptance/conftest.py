"""Fixtures of the acceptance tests: server processes on the emulator."""

import uuid
from collections.abc import Iterator

import pytest

from tests.acceptance.server_process import Pair, running_pair


@pytest.fixture(scope="session")
def firestore_settings(emulator_host: str) -> dict[str, str]:
    """Settings of a server on the emulator, in a project that this run of pytest alone uses."""
    return {
        "STORE": "firestore",
        "FIRESTORE_EMULATOR_HOST": emulator_host,
        "GOOGLE_CLOUD_PROJECT": f"demo-{uuid.uuid4()}",
    }


@pytest.fixture(scope="session")
def pair(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers with the echo agent."""
    settings = firestore_settings | {"AGENT": "echo", "ECHO_DELAY_MS": "5", "ABORT_GRACE": "0.5"}
    with running_pair(tmp_path_factory.mktemp("pair"), settings) as both:
        yield both


@pytest.fixture
def user() -> str:
    """A user that nobody else is."""
    return f"user-{uuid.uuid4()}"
