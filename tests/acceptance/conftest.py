"""Fixtures of the acceptance tests: server processes on the emulator."""

import uuid
from collections.abc import Iterator

import pytest

from tests.acceptance.fated_pair import MORTAL, FatedPair
from tests.acceptance.server_process import Pair, running, running_pair


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


@pytest.fixture(scope="session")
def steady(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[FatedPair]:
    """A pair whose first server may be frozen for a moment, which costs no turn its lease."""
    fated = FatedPair(tmp_path_factory.mktemp("steady"), firestore_settings)
    with running(fated.first, fated.second):
        yield fated


@pytest.fixture(scope="session")
def started_mortal(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[FatedPair]:
    fated = FatedPair(tmp_path_factory.mktemp("mortal"), firestore_settings | MORTAL)
    with running(fated.first, fated.second):
        yield fated


@pytest.fixture
async def mortal(started_mortal: FatedPair) -> FatedPair:
    """A pair that finds each other dead after two seconds; the first server may be killed or frozen."""
    if not started_mortal.first.is_running:
        await started_mortal.revive()
    return started_mortal


@pytest.fixture
def user() -> str:
    """A user that nobody else is."""
    return f"user-{uuid.uuid4()}"
