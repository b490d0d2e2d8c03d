"""The environment's settings: defaults, limits, and what is refused together."""

from dataclasses import replace
from pathlib import Path

import pytest

from functions.settings import Settings, SettingsError, read_settings, require_consistent


def refusal(**environ: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        read_settings(environ)
    assert "\n" not in str(caught.value)
    return caught.value


def deployed(settings: Settings, **changes: object) -> Settings:
    return replace(settings, deployed=True, auth="firebase", **changes)  # type: ignore[arg-type]  # names checked by replace


def test_an_empty_environment_serves_the_file_store_on_the_own_machine() -> None:
    settings = read_settings({})
    assert (settings.port, settings.store, settings.store_path) == (8080, "file", Path(".firesession"))
    assert (settings.agent, settings.auth, settings.cors_origins) == ("echo", "none", ())
    assert (settings.heartbeat_interval, settings.lease_staleness) == (15.0, 60.0)
    assert (settings.max_body_bytes, settings.max_state_bytes) == (8 * 1024**2, 64 * 1024**2)
    assert (settings.stream_max, settings.max_messages) == (3600.0, 100_000)
    assert (settings.wait_max, settings.stream_ttl, settings.sweep_interval) == (55.0, 3600.0, None)
    assert (settings.max_chain_length, settings.compact_at_tokens, settings.log_format) == (None, 0, "text")
    assert not settings.deployed


def test_an_emulator_makes_firestore_the_default_and_any_project_variable_will_do() -> None:
    settings = read_settings({"FIRESTORE_EMULATOR_HOST": "127.0.0.1:8081", "GCLOUD_PROJECT": "demo-x"})
    assert (settings.store, settings.project, settings.emulator_host) == ("firestore", "demo-x", "127.0.0.1:8081")


def test_a_named_store_beats_the_emulators_default() -> None:
    assert read_settings({"FIRESTORE_EMULATOR_HOST": "127.0.0.1:8081", "STORE": "memory"}).store == "memory"


def test_blank_values_count_as_absent() -> None:
    assert read_settings({"PORT": "", "STORE": "  ", "MODEL": "", "K_SERVICE": ""}) == read_settings({})


def test_a_missing_project_is_one_clear_line() -> None:
    assert str(refusal(STORE="firestore")).startswith("GOOGLE_CLOUD_PROJECT: is not set")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("STORE", "redis", "must be one of memory, file, firestore, not 'redis'"),
        ("PORT", "http", "must be a whole number, not 'http'"),
        ("PORT", "0", "must be at least 1, not 0"),
        ("PORT", "70000", "must be at most 65535, not 70000"),
        ("PORT", "8_080", "must be a whole number, not '8_080'"),
        ("PORT", "٨٠", "must be a whole number, not '٨٠'"),
        ("CHECKPOINT_INTERVAL", "0", "must be at least 1, not 0"),
        ("SHARD_SIZE", "1000001", "must be at most 1000000, not 1000001"),
        ("MAX_CHAIN_LENGTH", "0", "must be at least 1, not 0"),
        ("HEARTBEAT_INTERVAL", "0", "must be more than 0 seconds"),
        ("HEARTBEAT_INTERVAL", "nan", "must be a number, not 'nan'"),
        ("WAIT_MAX", "56", "must be at most 55, not 56"),
        ("STREAM_MAX", "3600.5", "must be at most 3600, not 3600.5"),
        ("STREAM_MAX", "0", "must be more than 0 seconds"),
        ("MAX_MESSAGES", "0", "must be at least 1, not 0"),
        ("ON_DISCONNECT", "stop", "must be one of continue, cancel, not 'stop'"),
        ("CPU_ALWAYS", "maybe", "must be on or off, not 'maybe'"),
        ("AUTH", "basic", "must be one of none, firebase, not 'basic'"),
        ("LEGACY_OWNER", "all", "must be one of off, tenant, not 'all'"),
        ("RETENTION_MAX_IDLE_DAYS", "-1", "must be at least 0, not -1"),
        ("COLLECTION", "a/b", "must not contain '/'"),
        ("FIRESTORE_EMULATOR_HOST", "http://x", "must be HOST:PORT, not 'http://x'"),
        ("MAX_BODY_BYTES", "x" * 100, f"must be a whole number, not '{'x' * 40}…'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_the_reason(name: str, value: str, reason: str) -> None:
    error = refusal(**{"GOOGLE_CLOUD_PROJECT": "demo-x", name: value})
    assert (error.name, error.reason) == (name, reason)


def test_a_lease_is_stale_after_three_missed_heartbeats_at_the_earliest() -> None:
    assert read_settings({"HEARTBEAT_INTERVAL": "0.5", "LEASE_STALENESS": "1.5"}).lease_staleness == 1.5
    error = refusal(HEARTBEAT_INTERVAL="0.5", LEASE_STALENESS="1.4")
    assert (error.name, error.reason) == (
        "LEASE_STALENESS",
        "must be at least 3 times HEARTBEAT_INTERVAL, so 1.5 seconds, not 1.4",
    )


def test_a_deployed_server_refuses_to_believe_every_caller() -> None:
    assert refusal(K_SERVICE="api", GOOGLE_CLOUD_PROJECT="p").name == "AUTH"


def test_the_emulator_of_functions_is_no_deployment_while_its_data_is_emulated_too() -> None:
    """It sets K_SERVICE as the platform does; its own mark alone would open real documents to every caller."""
    emulated = {"K_SERVICE": "api", "FUNCTIONS_EMULATOR": "true", "GCLOUD_PROJECT": "demo-x"}
    assert refusal(**emulated).name == "AUTH"
    assert not read_settings(emulated | {"FIRESTORE_EMULATOR_HOST": "127.0.0.1:8085"}).deployed
    assert (
        refusal(**emulated | {"FUNCTIONS_EMULATOR": "false", "FIRESTORE_EMULATOR_HOST": "127.0.0.1:1"}).name == "AUTH"
    )


FIREBASE = {"AUTH": "firebase", "GOOGLE_CLOUD_PROJECT": "demo-x"}
SCHEDULED = {"SCHEDULER_ACCOUNT": "sweeper@demo-x.iam.example.com", "OIDC_AUDIENCE": "https://api.example.com"}


def test_a_deployed_server_starts_with_firebase_tokens_of_its_project() -> None:
    settings = read_settings(FIREBASE | {"K_SERVICE": "api", "TENANT_CLAIM": "org"})
    assert (settings.auth, settings.project, settings.tenant_claim) == ("firebase", "demo-x", "org")
    assert settings.firebase_keys_url.startswith("https://www.googleapis.com/")
    assert settings.oidc_keys_url.startswith("https://www.googleapis.com/")


def test_tokens_need_a_project_whatever_the_store() -> None:
    assert refusal(AUTH="firebase", STORE="memory").name == "GOOGLE_CLOUD_PROJECT"


@pytest.mark.parametrize(("given", "missing"), [*zip(SCHEDULED, reversed(SCHEDULED), strict=True)])
def test_a_scheduler_is_let_in_by_its_account_and_its_audience_together(given: str, missing: str) -> None:
    assert refusal(**FIREBASE, **{given: SCHEDULED[given]}).name == missing


def test_a_queue_needs_an_account_that_its_callbacks_come_from() -> None:
    assert refusal(**FIREBASE, TASKS_QUEUE="turns").name == "SCHEDULER_ACCOUNT"
    assert refusal(TASKS_QUEUE="turns").name == "SCHEDULER_ACCOUNT"
    assert read_settings(FIREBASE | SCHEDULED | {"TASKS_QUEUE": "turns"}).tasks_queue == "turns"


def test_a_deployed_server_has_no_stand_in_for_its_queue() -> None:
    assert read_settings({"TASKS_ENDPOINT": "http://127.0.0.1:1"}).tasks_endpoint == "http://127.0.0.1:1"
    assert refusal(**FIREBASE, K_SERVICE="api", TASKS_ENDPOINT="http://127.0.0.1:1").name == "TASKS_ENDPOINT"


@pytest.mark.parametrize("name", ["FIREBASE_KEYS_URL", "OIDC_KEYS_URL"])
def test_keys_come_from_a_web_address_and_deployed_from_a_safe_one(name: str) -> None:
    for wrong in ("file:///etc/keys", "keys.example.com", "https://", "https://me@keys.example.com"):
        assert refusal(**{name: wrong}).name == name
    local = FIREBASE | {name: "http://127.0.0.1:8000/keys"}
    read_settings(local)
    assert refusal(**local, K_SERVICE="api").name == name
    read_settings(FIREBASE | {name: "https://keys.example.com/jwks?all", "K_SERVICE": "api"})


def test_replaying_needs_a_file() -> None:
    assert refusal(AGENT="replay").name == "REPLAY_FILE"
    assert read_settings({"AGENT": "replay", "REPLAY_FILE": "a.jsonl"}).replay_file == Path("a.jsonl")


@pytest.mark.parametrize("origin", ["app.example.com", "https://app.example.com/", "https://*.example.com", "null"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    assert refusal(CORS_ORIGINS=origin).name == "CORS_ORIGINS"


def test_origins_are_separated_by_commas_or_blanks() -> None:
    settings = read_settings({"CORS_ORIGINS": "https://a.example, http://localhost:5173 https://a.example"})
    assert settings.cors_origins == ("https://a.example", "http://localhost:5173")


def test_every_origin_stands_alone_and_never_beside_authentication() -> None:
    everybody = read_settings({"CORS_ORIGINS": "*"})
    assert everybody.cors_origins == ("*",)
    assert refusal(CORS_ORIGINS="* https://a.example").name == "CORS_ORIGINS"
    with pytest.raises(SettingsError, match="CORS_ORIGINS"):
        require_consistent(replace(everybody, auth="firebase"))


@pytest.mark.parametrize("changes", [{"cpu_always": True}, {"tasks_queue": "turns"}])
def test_deployed_turns_continue_only_with_constant_cpu_or_a_queue(changes: dict[str, object]) -> None:
    bare = deployed(read_settings({}))
    assert (bare.works_after_response, bare.disconnect_policy("continue")) == (False, "cancel")
    able = deployed(read_settings({}), **changes)
    assert (able.works_after_response, able.disconnect_policy("continue")) == (True, "continue")


def test_a_request_decides_over_the_setting_what_a_disconnect_does() -> None:
    settings = read_settings({"ON_DISCONNECT": "cancel"})
    assert (settings.disconnect_policy(), settings.disconnect_policy("continue")) == ("cancel", "continue")


def test_a_sweep_is_switched_off_by_name_or_by_absence() -> None:
    assert read_settings({"SWEEP_INTERVAL": "off"}).sweep_interval is None
    assert read_settings({"SWEEP_INTERVAL": "60"}).sweep_interval == 60.0
