"""The lines that the design draws between modules, held by reading the imports of every source file."""

import ast
import os
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("store", "functions", "tests", "tools")
MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 60
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "service", "misc"}

# Modules directly below `store`, the lowest layer first; one imports its own layer and those before it. What is not
# listed lies above all of them.
LAYERS = (
    {"errors", "ids", "canonical", "state", "models", "database"},
    {"contract", "rules", "layout", "legacy"},
    {"documents"},
    {"local", "memory", "file", "firestore"},
)


@dataclass(frozen=True)
class Source:
    """One file, named as it is imported: `store.layout.codec`."""

    module: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def read_sources(folder: str) -> Iterator[Source]:
    """All Python files below `folder`; links, of which functions/store is one, are not followed."""
    for parent, folders, names in os.walk(ROOT / folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]  # not ours
        for path in (Path(parent, name) for name in sorted(names) if name.endswith(".py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            yield Source(".".join(parts[:-1] if is_package else parts), path.read_text(encoding="utf-8"), is_package)


SOURCES = tuple(source for folder in FOLDERS for source in read_sources(folder))
STORE = tuple(source for source in SOURCES if source.module.split(".")[0] == "store")
SERVED = tuple(source for source in SOURCES if source.module.split(".")[0] in ("store", "functions"))


def imports_of(source: Source) -> Set[str]:
    """Everything that it imports, anywhere in it; `from a import b` counts as `a` and as `a.b`."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def is_within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def offences(sources: tuple[Source, ...], *forbidden: str) -> list[str]:
    """Who of `sources` imports one of the `forbidden` packages or something in it."""
    return sorted(
        f"{source.module} imports {name}"
        for source in sources
        for name in imports_of(source)
        if is_within(name, *forbidden)
    )


def outside(sources: tuple[Source, ...], *allowed: str) -> tuple[Source, ...]:
    return tuple(source for source in sources if not is_within(source.module, *allowed))


def inside(sources: tuple[Source, ...], *packages: str) -> tuple[Source, ...]:
    return tuple(source for source in sources if is_within(source.module, *packages))


def layer_of(module: str) -> int:
    """Of a module of `store`; the package itself may gather everything, so it lies on top."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else ""
    return next((number for number, names in enumerate(LAYERS) if name in names), len(LAYERS))


def upward_imports(sources: tuple[Source, ...]) -> list[str]:
    known = {source.module for source in STORE}
    return sorted(
        f"{source.module} imports {name}"
        for source in sources
        for name in imports_of(source) & known - {"store"}
        if layer_of(name) > layer_of(source.module)
    )


def relative_imports(sources: tuple[Source, ...]) -> list[str]:
    return [
        f"{source.module}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def long_functions(sources: tuple[Source, ...]) -> list[str]:
    return [
        f"{source.module}.{node.name}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]


def test_store_knows_no_function() -> None:
    assert offences(STORE, "functions", "functions_framework") == []


def test_only_its_adapter_knows_genkit() -> None:
    assert offences(outside(SERVED, "store.adapters.genkit"), "genkit", "genkit_google_cloud") == []


def test_the_database_client_stays_in_its_backend_and_the_wiring() -> None:
    others = outside(SERVED, "store.firestore", "functions.wiring")
    assert offences(others, "google.cloud", "google.api_core", "grpc") == []


def test_only_functions_know_the_web_framework() -> None:
    assert offences(STORE, "starlette", "uvicorn", "flask") == []


def test_rules_and_layout_are_pure() -> None:
    pure = inside(STORE, "store.rules", "store.layout")
    assert offences(pure, "store.database.Database", "asyncio", "time") == []
    assert offences(inside(pure, "store.rules"), "store.database") == []  # the layout speaks of documents, rules do not


def test_store_imports_point_to_lower_layers() -> None:
    assert upward_imports(STORE) == []


def test_imports_are_absolute() -> None:
    assert relative_imports(SOURCES) == []


def test_nothing_imports_the_entry_points() -> None:
    assert offences(SOURCES, "functions.main", "main", "functions.store") == []


def test_served_code_knows_no_test_and_no_tool() -> None:
    assert offences(outside(SERVED, "store.conformance"), "tests", "tools", "pytest", "hypothesis", "httpx") == []


def test_files_are_short() -> None:
    lengths = {source.module: len(source.text.splitlines()) for source in SOURCES}
    assert {module: lines for module, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    assert long_functions(SOURCES) == []


def test_modules_are_named_for_what_they_own() -> None:
    assert [source.module for source in SOURCES if VAGUE_NAMES & set(source.module.split("."))] == []


def test_every_source_is_read_once_and_under_its_own_name() -> None:
    modules = [source.module for source in SOURCES]
    assert len(modules) == len(set(modules))
    assert {"store", "store.errors", "functions.cli.emulator", "tests.test_architecture"} <= set(modules)
    assert not any(is_within(module, "functions.store") for module in modules)


@pytest.mark.parametrize(
    "text",
    [
        "import google.cloud.firestore",
        "from google.cloud import firestore",
        "from google import cloud",
        "def f():\n    import google.cloud",
    ],
)
def test_an_import_is_noticed_however_it_is_written(text: str) -> None:
    assert offences((Source("store.sample", text),), "google.cloud")


def test_a_similar_name_is_not_taken_for_the_package() -> None:
    assert offences((Source("store.sample", "import mainly, functions.mainly"),), "main", "functions.main") == []


@pytest.mark.parametrize(
    ("module", "text", "noticed"),
    [
        ("store.errors", "from store import database", False),
        ("store.ids", "from store.contract import Lease", True),
        ("store.contract", "from store.errors import StoreError", False),
        ("store.database", "from store import contract", True),
    ],
)
def test_an_upward_import_is_noticed(module: str, text: str, noticed: bool) -> None:
    assert bool(upward_imports((Source(module, text),))) is noticed


def test_a_relative_import_and_a_long_function_are_noticed() -> None:
    source = Source("store.sample", "from . import errors\ndef f():\n" + "    pass\n" * MAX_FUNCTION_LINES)
    assert relative_imports((source,)) == ["store.sample:1"]
    assert long_functions((source,)) == ["store.sample.f"]
