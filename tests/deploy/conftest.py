"""Fixtures of the tests of deployments: what is uploaded, and the environment that it is installed in."""

from pathlib import Path

import pytest

from tests.deploy.packages import ROOT, installed, packed_by_firebase, packed_by_gcloud


@pytest.fixture(scope="session")
def uploaded_by_gcloud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the whole root, unpacked."""
    return packed_by_gcloud(tmp_path_factory.mktemp("gcloud"))


@pytest.fixture(scope="session")
def uploaded_by_firebase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of functions/ alone, unpacked."""
    return packed_by_firebase(tmp_path_factory.mktemp("firebase"))


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment with the locked requirements and nothing else.

    One for all packages: each is required to bring this very list.
    """
    return installed(tmp_path_factory.mktemp("environment"), ROOT / "functions" / "requirements.txt")
