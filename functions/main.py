"""The deployable entry points, and nothing else. Loaded by functions-framework as `main`; imported by nobody.

The package is called `functions` wherever it lies: in the repository it is a folder of that name, in a deployment of
this folder alone it is the root.
"""

import importlib.util
import os
import sys
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_HERE = Path(__file__).resolve().parent


def _make_importable() -> None:
    """Registers this very folder as the package `functions`, so that no other one of that name can be meant."""
    spec = importlib.util.spec_from_file_location(
        "functions", _HERE / "__init__.py", submodule_search_locations=[str(_HERE)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{_HERE} is not a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules["functions"] = package
    spec.loader.exec_module(package)
    # `store` lies beside this file where this folder alone was deployed, beside the folder where the root was.
    home = _HERE if (_HERE / "store").is_dir() else _HERE.parent
    if str(home) not in sys.path:
        sys.path.append(str(home))


if "functions" not in sys.modules:
    _make_importable()

import functions_framework.aio  # noqa: E402  # the package has to be registered first

from functions.app import serve  # noqa: E402  # the same
from functions.settings import settings_of_process  # noqa: E402  # the same
from functions.telemetry import require_exporter  # noqa: E402  # the same

_SETTINGS = settings_of_process(os.environ)
require_exporter(os.environ)


@functions_framework.aio.http
async def app(request: Request) -> Response:
    """Every route."""
    return await serve(request, _SETTINGS)


@functions_framework.aio.http
async def chat(request: Request) -> Response:
    """POST /chat."""
    return await serve(request, _SETTINGS, "chat")


@functions_framework.aio.http
async def abort(request: Request) -> Response:
    """POST /abort."""
    return await serve(request, _SETTINGS, "abort")


@functions_framework.aio.http
async def snapshot(request: Request) -> Response:
    """GET /snapshot."""
    return await serve(request, _SETTINGS, "snapshot")


@functions_framework.aio.http
async def sessions(request: Request) -> Response:
    """Everything under /sessions."""
    return await serve(request, _SETTINGS, "sessions")


@functions_framework.aio.http
async def turn(request: Request) -> Response:
    """POST /turn."""
    return await serve(request, _SETTINGS, "turn")


@functions_framework.aio.http
async def sweep(request: Request) -> Response:
    """POST /sweep."""
    return await serve(request, _SETTINGS, "sweep")
