"""Fixtures that more than one folder of tests uses."""

import os
import uuid
from collections.abc import Iterator

import pytest

from functions.cli.emulator import HOST_VARIABLE, EmulatorNotFoundError, find_emulator, running_emulator
from tests.warm_emulator import warm_up

INSTALLS = {"node", "genkit", "browser", "deploy"}  # markers of tests that install something before they begin


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Side by side, a worker takes a class or a file at a time; what installs something goes to one of them, first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group_of(item)))
    items.sort(key=lambda item: not _installs(item))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses to run side by side without the groups: the tests of a file share what they start."""
    if session.config.getoption("loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise RuntimeError("pytest-xdist has not taken over the groups of tests: another version of pytest?")


_internal_errors: list[str] = []


def pytest_internalerror(excrepr: object) -> None:
    """Keeps what went wrong in pytest itself, a worker's errors included, for the end of the output."""
    _internal_errors.append(str(excrepr))


def pytest_unconfigure() -> None:
    """Tells the first such error again: those that follow from it have buried it, and there is no summary then."""
    for error in _internal_errors[:1]:
        print("The first internal error:", *error.splitlines()[-15:], sep="\n")


def _group_of(item: pytest.Item) -> str:
    if _installs(item):
        return "installs"
    scope = item.getparent(pytest.Class) or item.getparent(pytest.Module)
    assert scope is not None
    return scope.nodeid


def _installs(item: pytest.Item) -> bool:
    return any(marker.name in INSTALLS for marker in item.iter_markers())


@pytest.fixture(scope="session")
def emulator_host() -> Iterator[str]:
    """Address and port of the Firestore emulator: the one that the environment names, or one for this run of pytest.

    The Firestore client reads the same variable, so that no test can reach a real database by mistake.
    """
    try:
        find_emulator(os.environ)
    except EmulatorNotFoundError as error:
        pytest.fail(str(error), pytrace=False)
    with running_emulator(os.environ) as host, pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOST_VARIABLE, host)
        warm_up(host)
        yield host


@pytest.fixture
def project_id() -> str:
    """A project that nobody else uses: in the emulator every project is a database of its own."""
    return f"demo-{uuid.uuid4()}"
