"""All settings of the server: their names, defaults and limits. Read once, at the start; nothing else reads the
environment. Values are checked here and together (`require_consistent`), so that a wrong one stops the start.

Durations are seconds. `deployed` means that the platform runs us: `K_SERVICE` is set, and not by Firebase's emulator.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from functions.environment import Environment, SettingsError, shown
from store.errors import InvalidRequestError
from store.ids import require_id

__all__ = ["DisconnectPolicy", "Settings", "SettingsError", "StoreKind", "read_settings", "require_consistent"]

StoreKind: TypeAlias = Literal["memory", "file", "firestore"]
DisconnectPolicy: TypeAlias = Literal["continue", "cancel"]
SegmentKeeper: TypeAlias = Literal["off", "memory", "firestore"]
LegacyOwner: TypeAlias = Literal["off", "tenant"]
LogFormat: TypeAlias = Literal["text", "json"]
AuthKind: TypeAlias = Literal["none", "firebase"]

STORES: Final[tuple[StoreKind, ...]] = ("memory", "file", "firestore")
DISCONNECT_POLICIES: Final[tuple[DisconnectPolicy, ...]] = ("continue", "cancel")
SEGMENT_KEEPERS: Final[tuple[SegmentKeeper, ...]] = ("off", "memory", "firestore")
LEGACY_OWNERS: Final[tuple[LegacyOwner, ...]] = ("off", "tenant")
LOG_FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")
AUTHENTICATIONS: Final[tuple[AuthKind, ...]] = ("none", "firebase")

FIREBASE_KEYS_URL: Final = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"
OIDC_KEYS_URL: Final = "https://www.googleapis.com/oauth2/v3/certs"

MEBIBYTE: Final = 1024 * 1024
BEATS_UNTIL_STALE: Final = 3  # two lost heartbeats in a row must not cost a live turn its lease
LONGEST_WAIT: Final = 55.0  # under the 60 seconds after which proxies cut a silent request
LONGEST_STREAM: Final = 3600.0  # as long as Cloud Run lets one request take

_ORIGIN = re.compile(r"https?://[^/?#\s@*]+")
_KEYS_URL = re.compile(r"https?://[^/?#\s@]+(/[^\s#]*)?")
_HOST_AND_PORT = re.compile(r"[^/\s]+:[0-9]{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The checked settings, one field per setting, in the order of the table in the documentation."""

    deployed: bool
    port: int
    store: StoreKind
    store_path: Path
    project: str | None
    emulator_host: str | None
    firestore_database: str
    collection: str
    checkpoint_interval: int
    shard_size: int
    max_chain_length: int | None
    agent: str
    model: str | None
    echo_delay_ms: int
    replay_file: Path | None
    heartbeat_interval: float
    lease_staleness: float
    abort_grace: float
    shutdown_grace: float
    on_disconnect: DisconnectPolicy  # what applies, not what was configured
    cpu_always: bool
    tasks_queue: str | None
    tasks_endpoint: str | None
    max_body_bytes: int
    max_state_bytes: int
    max_messages: int
    max_turns_per_instance: int
    max_turns_per_user: int
    wait_max: float
    stream_max: float
    stream_segments: SegmentKeeper
    stream_ttl: float
    auth: AuthKind
    tenant_claim: str | None
    admin_claim: str
    firebase_keys_url: str
    oidc_keys_url: str
    cors_origins: tuple[str, ...]
    legacy_owner: LegacyOwner
    scheduler_account: str | None
    oidc_audience: str | None
    sweep_interval: float | None
    temporary_hours: float
    retention_max_idle_days: int
    retention_max_count_per_user: int
    compact_at_tokens: int
    log_format: LogFormat

    @property
    def works_after_response(self) -> bool:
        """Whether a turn can go on once no request is open: on the own machine, with always-on CPU, or by a queue."""
        return not self.deployed or self.cpu_always or self.tasks_queue is not None

    def disconnect_policy(self, asked: DisconnectPolicy | None = None) -> DisconnectPolicy:
        """What happens when a turn's last reader leaves, given what the request asked for: `continue` becomes
        `cancel` where nothing could continue."""
        return (asked or self.on_disconnect) if self.works_after_response else "cancel"


def read_settings(environ: Mapping[str, str]) -> Settings:
    """The settings of `environ`; SettingsError names the first wrong one. Does no I/O."""
    env = Environment(environ)
    emulator_host = env.text("FIRESTORE_EMULATOR_HOST")
    # Firebase's emulator names a K_SERVICE too. Its own mark does not count alone: no real data may depend on it.
    emulated = env.text("FUNCTIONS_EMULATOR") == "true" and emulator_host is not None
    deployed = env.text("K_SERVICE") is not None and not emulated
    settings = Settings(
        deployed=deployed,
        port=env.integer("PORT", 8080, 1, 65535),
        store=env.choice("STORE", STORES, _store(deployed, emulator_host)),
        store_path=Path(env.text("STORE_PATH") or ".firesession"),
        project=env.text("GOOGLE_CLOUD_PROJECT") or env.text("GCLOUD_PROJECT"),
        emulator_host=emulator_host,
        firestore_database=env.text("FIRESTORE_DATABASE") or "(default)",
        collection=env.text("COLLECTION") or "genkit-sessions",
        checkpoint_interval=env.integer("CHECKPOINT_INTERVAL", 25, 1),
        shard_size=env.integer("SHARD_SIZE", 524_288, 1, 1_000_000),
        max_chain_length=env.optional_integer("MAX_CHAIN_LENGTH", 1),
        agent=env.text("AGENT") or "echo",
        model=env.text("MODEL"),
        echo_delay_ms=env.integer("ECHO_DELAY_MS", 0, 0, 60_000),
        replay_file=_path(env.text("REPLAY_FILE")),
        heartbeat_interval=env.seconds("HEARTBEAT_INTERVAL", 15.0),
        lease_staleness=env.seconds("LEASE_STALENESS", 60.0),
        abort_grace=env.number("ABORT_GRACE", 5.0, 0),
        shutdown_grace=env.number("SHUTDOWN_GRACE", 8.0, 0),
        on_disconnect=env.choice("ON_DISCONNECT", DISCONNECT_POLICIES, "continue"),
        cpu_always=env.flag("CPU_ALWAYS"),
        tasks_queue=env.text("TASKS_QUEUE"),
        tasks_endpoint=env.text("TASKS_ENDPOINT"),
        max_body_bytes=env.integer("MAX_BODY_BYTES", 8 * MEBIBYTE, 1),
        max_state_bytes=env.integer("MAX_STATE_BYTES", 64 * MEBIBYTE, 1),
        max_messages=env.integer("MAX_MESSAGES", 100_000, 1, 100_000_000),
        max_turns_per_instance=env.integer("MAX_TURNS_PER_INSTANCE", 200, 1),
        max_turns_per_user=env.integer("MAX_TURNS_PER_USER", 5, 1),
        wait_max=env.number("WAIT_MAX", LONGEST_WAIT, 0, LONGEST_WAIT),
        stream_max=env.seconds("STREAM_MAX", LONGEST_STREAM, LONGEST_STREAM),
        stream_segments=env.choice("STREAM_SEGMENTS", SEGMENT_KEEPERS, "firestore"),
        stream_ttl=env.seconds("STREAM_TTL", 3600.0),
        auth=env.choice("AUTH", AUTHENTICATIONS, "none"),
        tenant_claim=env.text("TENANT_CLAIM"),
        admin_claim=env.text("ADMIN_CLAIM") or "admin",
        firebase_keys_url=env.text("FIREBASE_KEYS_URL") or FIREBASE_KEYS_URL,
        oidc_keys_url=env.text("OIDC_KEYS_URL") or OIDC_KEYS_URL,
        cors_origins=_origins(env.text("CORS_ORIGINS")),
        legacy_owner=env.choice("LEGACY_OWNER", LEGACY_OWNERS, "off"),
        scheduler_account=env.text("SCHEDULER_ACCOUNT"),
        oidc_audience=env.text("OIDC_AUDIENCE"),
        sweep_interval=env.optional_seconds("SWEEP_INTERVAL"),
        temporary_hours=env.number("TEMPORARY_AGENT_SESSION_TIME_TO_LIVE_HOURS", 24.0, 0),
        retention_max_idle_days=env.integer("RETENTION_MAX_IDLE_DAYS", 30, 0),
        retention_max_count_per_user=env.integer("RETENTION_MAX_COUNT_PER_USER", 30, 0),
        compact_at_tokens=env.integer("COMPACT_AT_TOKENS", 0, 0),
        log_format=env.choice("LOG_FORMAT", LOG_FORMATS, "json" if deployed else "text"),
    )
    require_consistent(settings)
    return replace(settings, on_disconnect=settings.disconnect_policy())


def require_consistent(settings: Settings) -> None:
    """Refuses, with SettingsError, settings that are right alone and wrong together."""
    _require_lease(settings)
    _require_store(settings)
    _require_access(settings)
    _require_tokens(settings)
    if settings.agent == "replay" and settings.replay_file is None:
        raise SettingsError("REPLAY_FILE", "must name the file with the recorded sessions where AGENT=replay")


def _require_lease(settings: Settings) -> None:
    least = BEATS_UNTIL_STALE * settings.heartbeat_interval
    if settings.lease_staleness < least:
        raise SettingsError(
            "LEASE_STALENESS",
            f"must be at least {BEATS_UNTIL_STALE} times HEARTBEAT_INTERVAL, "
            f"so {least:g} seconds, not {settings.lease_staleness:g}",
        )


def _require_store(settings: Settings) -> None:
    try:
        require_id(settings.collection, "it")
    except InvalidRequestError as error:
        raise SettingsError("COLLECTION", error.message.removeprefix("it ").removesuffix(".")) from error
    if settings.store == "firestore" and settings.project is None:
        raise SettingsError(
            "GOOGLE_CLOUD_PROJECT", "is not set; STORE=firestore needs a project (with the emulator any name will do)"
        )
    if settings.emulator_host is not None and not _HOST_AND_PORT.fullmatch(settings.emulator_host):
        raise SettingsError("FIRESTORE_EMULATOR_HOST", f"must be HOST:PORT, not {shown(settings.emulator_host)}")


def _require_access(settings: Settings) -> None:
    if settings.auth == "none" and settings.deployed:
        raise SettingsError("AUTH", "none believes every caller; it is refused where K_SERVICE is set (deployed)")
    if "*" in settings.cors_origins and len(settings.cors_origins) > 1:
        raise SettingsError("CORS_ORIGINS", "* stands for every origin; name no other beside it")
    if "*" in settings.cors_origins and settings.auth != "none":
        raise SettingsError("CORS_ORIGINS", f"* is refused with AUTH={settings.auth}; name the origins")


def _require_tokens(settings: Settings) -> None:
    if settings.auth == "firebase" and settings.project is None:
        raise SettingsError("GOOGLE_CLOUD_PROJECT", "is not set; AUTH=firebase takes the tokens of one project only")
    if (settings.scheduler_account is None) != (settings.oidc_audience is None):
        missing = "SCHEDULER_ACCOUNT" if settings.scheduler_account is None else "OIDC_AUDIENCE"
        raise SettingsError(missing, "must be set too: a callback is let in by its account and its audience together")
    if settings.tasks_queue is not None and settings.scheduler_account is None:
        raise SettingsError("SCHEDULER_ACCOUNT", "must be set with TASKS_QUEUE, as whom and where the queue calls back")
    if settings.tasks_endpoint is not None and settings.deployed:
        raise SettingsError("TASKS_ENDPOINT", "names a stand-in of the queue; it is refused where K_SERVICE is set")
    for name, url in (("FIREBASE_KEYS_URL", settings.firebase_keys_url), ("OIDC_KEYS_URL", settings.oidc_keys_url)):
        if not _KEYS_URL.fullmatch(url):
            raise SettingsError(name, f"{shown(url)} is not a URL such as https://keys.example.com/jwks")
        if settings.deployed and not url.startswith("https://"):
            raise SettingsError(name, "must be https where K_SERVICE is set (deployed): who gives the keys lets in")


def _store(deployed: bool, emulator_host: str | None) -> StoreKind:
    return "firestore" if deployed or emulator_host else "file"


def _path(value: str | None) -> Path | None:
    return None if value is None else Path(value)


def _origins(value: str | None) -> tuple[str, ...]:
    origins = tuple(dict.fromkeys((value or "").replace(",", " ").split()))
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise SettingsError(
                "CORS_ORIGINS", f"{shown(origin)} is not an origin such as https://app.example.com (no path, no slash)"
            )
    return origins


def settings_of_process(environ: Mapping[str, str]) -> Settings:
    """`read_settings`, or the end of the process with one line that names the setting and the reason."""
    try:
        return read_settings(environ)
    except SettingsError as error:
        raise SystemExit(f"firesession: {error}") from error
