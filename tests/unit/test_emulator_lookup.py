"""Where the Firestore emulator is looked for, in trees that are made here."""

from pathlib import Path

import pytest

from functions.cli.emulator import EmulatorNotFoundError, Jar, Running, find_emulator, find_jar


def make_executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def make_sdk(root: Path) -> Path:
    """An installed SDK; gives its emulator."""
    make_executable(root / "bin" / "gcloud")
    jar = root / "platform" / "cloud-firestore-emulator" / "cloud-firestore-emulator.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    return jar


def make_cached(folder: Path, version: str) -> Path:
    """One version in the Firebase CLI's cache."""
    folder.mkdir(parents=True, exist_ok=True)
    jar = folder / f"cloud-firestore-emulator-v{version}.jar"
    jar.touch()
    return jar


@pytest.fixture
def java(tmp_path: Path) -> Path:
    return make_executable(tmp_path / "jre" / "bin" / "java")


@pytest.fixture
def environ(tmp_path: Path, java: Path) -> dict[str, str]:
    """A machine with Java and nothing else."""
    return {"HOME": str(tmp_path / "home"), "PATH": str(java.parent)}


def add_to_path(environ: dict[str, str], folder: Path) -> None:
    environ["PATH"] = f"{folder}:{environ['PATH']}"


def test_a_running_emulator_is_used_even_where_one_is_installed(tmp_path: Path, environ: dict[str, str]) -> None:
    make_sdk(tmp_path / "home" / "google-cloud-sdk")
    environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:8085"
    assert find_emulator(environ) == Running("127.0.0.1:8085")


def test_an_installed_emulator_is_found_besides_a_running_one(tmp_path: Path, environ: dict[str, str]) -> None:
    jar = make_sdk(tmp_path / "home" / "google-cloud-sdk")
    environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:8085"
    assert find_jar(environ).path == jar


def test_an_empty_host_names_no_emulator(tmp_path: Path, environ: dict[str, str], java: Path) -> None:
    jar = make_sdk(tmp_path / "home" / "google-cloud-sdk")
    environ["FIRESTORE_EMULATOR_HOST"] = ""
    assert find_emulator(environ) == Jar(jar, java)


def test_the_sdk_is_where_its_variable_says(tmp_path: Path, environ: dict[str, str]) -> None:
    jar = make_sdk(tmp_path / "anywhere")
    make_sdk(tmp_path / "home" / "google-cloud-sdk")
    environ["CLOUDSDK_ROOT_DIR"] = str(tmp_path / "anywhere")
    assert find_jar(environ).path == jar


def test_a_link_to_gcloud_leads_to_the_sdk(tmp_path: Path, environ: dict[str, str]) -> None:
    jar = make_sdk(tmp_path / "usr" / "deep" / "sdk")
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "gcloud").symlink_to("../usr/deep/sdk/bin/gcloud")
    add_to_path(environ, tmp_path / "commands")
    assert find_jar(environ).path == jar


def test_a_script_that_wraps_gcloud_leads_to_the_sdk(tmp_path: Path, environ: dict[str, str]) -> None:
    jar = make_sdk(tmp_path / "elsewhere")
    text = f'#!/bin/sh\nexec "{tmp_path}/elsewhere/bin/gcloud" "$@"\n'
    add_to_path(environ, make_executable(tmp_path / "commands" / "gcloud", text).parent)
    assert find_jar(environ).path == jar


def test_a_binary_named_gcloud_is_no_obstacle(tmp_path: Path, environ: dict[str, str]) -> None:
    jar = make_sdk(tmp_path / "home" / "google-cloud-sdk")
    make_executable(tmp_path / "commands" / "gcloud").write_bytes(b"\x7fELF\xff\xfe")
    add_to_path(environ, tmp_path / "commands")
    assert find_jar(environ).path == jar


@pytest.mark.parametrize("folder", ["lib", "share", "opt", "."])
def test_an_sdk_beside_a_folder_of_commands_needs_no_gcloud(
    tmp_path: Path, environ: dict[str, str], folder: str
) -> None:
    jar = make_sdk(tmp_path / "usr" / folder / "google-cloud-sdk")
    add_to_path(environ, tmp_path / "usr" / "bin")
    assert find_jar(environ).path == jar


def test_an_sdk_without_the_emulator_is_passed_over(tmp_path: Path, environ: dict[str, str]) -> None:
    add_to_path(environ, make_executable(tmp_path / "sdk" / "bin" / "gcloud").parent)
    jar = make_cached(tmp_path / "home" / ".cache" / "firebase" / "emulators", "1.19.9")
    assert find_jar(environ).path == jar


def test_the_sdk_goes_before_the_firebase_cache(tmp_path: Path, environ: dict[str, str]) -> None:
    make_cached(tmp_path / "home" / ".cache" / "firebase" / "emulators", "9.0.0")
    jar = make_sdk(tmp_path / "home" / "google-cloud-sdk")
    assert find_jar(environ).path == jar


def test_the_newest_of_the_firebase_cache_is_newest_by_number(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "home" / ".cache" / "firebase" / "emulators"
    make_cached(folder, "1.9.10")
    jar = make_cached(folder, "1.19.9")
    make_cached(folder, "1.19.8")
    (folder / "cloud-storage-rules-runtime-v2.0.0.jar").touch()
    assert find_jar(environ).path == jar


def test_the_firebase_cache_is_where_its_variable_says(tmp_path: Path, environ: dict[str, str]) -> None:
    make_cached(tmp_path / "home" / ".cache" / "firebase" / "emulators", "2.0.0")
    jar = make_cached(tmp_path / "cache", "1.0.0")
    environ["FIREBASE_EMULATORS_PATH"] = str(tmp_path / "cache")
    assert find_jar(environ).path == jar


def test_nothing_found_is_one_line_that_says_how_to_get_it(environ: dict[str, str]) -> None:
    with pytest.raises(EmulatorNotFoundError) as caught:
        find_emulator(environ)
    message = str(caught.value)
    assert "\n" not in message
    for way in ("gcloud components install", "firebase setup:emulators:firestore", "FIRESTORE_EMULATOR_HOST"):
        assert way in message


def test_an_empty_environment_finds_nothing() -> None:
    with pytest.raises(EmulatorNotFoundError):
        find_emulator({})


def test_missing_java_is_one_line_of_its_own(tmp_path: Path) -> None:
    make_sdk(tmp_path / "google-cloud-sdk")
    with pytest.raises(EmulatorNotFoundError, match=r"needs Java.*JAVA_HOME") as caught:
        find_emulator({"HOME": str(tmp_path)})
    assert "\n" not in str(caught.value)


def test_the_java_of_java_home_goes_before_the_one_on_path(tmp_path: Path, environ: dict[str, str]) -> None:
    make_sdk(tmp_path / "home" / "google-cloud-sdk")
    chosen = make_executable(tmp_path / "jdk" / "bin" / "java")
    environ["JAVA_HOME"] = str(tmp_path / "jdk")
    assert find_jar(environ).java == chosen


def test_a_java_home_without_java_is_passed_over(tmp_path: Path, environ: dict[str, str], java: Path) -> None:
    make_sdk(tmp_path / "home" / "google-cloud-sdk")
    environ["JAVA_HOME"] = str(tmp_path / "nothing")
    assert find_jar(environ).java == java
