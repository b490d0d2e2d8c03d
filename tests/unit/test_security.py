"""The headers of every answer."""

import pytest
from starlette.responses import HTMLResponse, Response

from functions.security import DATA_POLICY, PAGE_POLICY, harden, security_headers


@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8", "TEXT/HTML"])
def test_a_page_may_run_its_own_scripts_and_nothing_inline(content_type: str) -> None:
    assert security_headers(content_type)["Content-Security-Policy"] == PAGE_POLICY
    assert "script-src 'self'" in PAGE_POLICY
    assert "unsafe" not in PAGE_POLICY
    assert "*" not in PAGE_POLICY
    assert "frame-ancestors 'none'" in PAGE_POLICY


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "", "application/xhtml+xml"])
def test_anything_else_may_do_nothing_should_it_be_shown_as_a_page(content_type: str) -> None:
    assert security_headers(content_type)["Content-Security-Policy"] == DATA_POLICY


def test_what_a_handler_has_said_itself_is_kept() -> None:
    response = harden(HTMLResponse("", headers={"Cache-Control": "public, max-age=60"}))
    assert response.headers["cache-control"] == "public, max-age=60"
    assert response.headers["content-security-policy"] == PAGE_POLICY
    assert response.headers["x-content-type-options"] == "nosniff"


def test_an_empty_answer_is_not_kept_either() -> None:
    assert harden(Response(status_code=204)).headers["cache-control"] == "no-store"
