"""What the deployment files say is what the tools accept, and what the code has."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from functions.app import ROUTES
from tests.deploy.packages import ROOT, firebase_cli, run

CONFIG: dict[str, Any] = json.loads((ROOT / "firebase.json").read_text(encoding="utf-8"))
ENDPOINTS: dict[str, Any] = yaml.safe_load((ROOT / "functions" / "functions.yaml").read_text())["endpoints"]
LONGEST_WAIT = 55  # seconds of `wait`, which no function may be cut before
LONGEST_DELIVERY = 1800  # seconds of a queue's task


def test_every_function_can_be_deployed() -> None:
    """`app` serves all, each of the others what no other one does."""
    assert set(ENDPOINTS) == {"app"} | {route.function for route in ROUTES if route.function}
    assert {name: endpoint["entryPoint"] for name, endpoint in ENDPOINTS.items()} == {name: name for name in ENDPOINTS}


def test_no_function_is_cut_before_it_can_answer() -> None:
    seconds = {name: endpoint["timeoutSeconds"] for name, endpoint in ENDPOINTS.items()}
    assert min(seconds.values()) > LONGEST_WAIT
    assert min(seconds["app"], seconds["turn"]) >= LONGEST_DELIVERY


def test_hosting_passes_on_to_a_function_that_serves_every_route() -> None:
    [rewrite] = CONFIG["hosting"]["rewrites"]
    assert rewrite == {"source": "**", "function": {"functionId": "app", "region": ENDPOINTS["app"]["region"][0]}}
    assert (ROOT / CONFIG["hosting"]["public"] / "robots.txt").is_file()


@pytest.mark.deploy
@pytest.mark.node
@pytest.mark.timeout(900)
def test_the_firebase_cli_takes_it_all() -> None:
    """Its schema for firebase.json; its own reading and checks of endpoints, indexes and TTL policies."""
    folder = firebase_cli().parents[2]
    schema = json.loads((folder / "node_modules/firebase-tools/schema/firebase-config.json").read_text())
    jsonschema.validate(CONFIG, schema)
    checked = json.loads(run(["node", str(folder / "check.mjs"), str(ROOT)], folder))
    assert {endpoint["id"] for endpoint in checked["endpoints"]} == set(ENDPOINTS)
    expiring = {field["collectionGroup"] for field in checked["indexes"]["fieldOverrides"] if field.get("ttl")}
    assert expiring == {"snapshots", "shards", "pointers", "streams"}
