"""Which pages of other origins may read answers."""

from functions.cors import cors_headers, is_preflight, preflight_headers

LISTED = ("https://a.example",)


def test_without_the_setting_no_answer_carries_a_header() -> None:
    assert cors_headers((), "https://a.example") == {}
    assert preflight_headers((), "https://a.example") == {}


def test_a_listed_origin_may_read() -> None:
    headers = cors_headers(LISTED, "https://a.example")
    assert (headers["Access-Control-Allow-Origin"], headers["Vary"]) == ("https://a.example", "Origin")


def test_an_origin_that_is_not_listed_may_not_and_caches_know() -> None:
    assert cors_headers(LISTED, "https://b.example") == {"Vary": "Origin"}
    assert cors_headers(LISTED, None) == {"Vary": "Origin"}
    assert preflight_headers(LISTED, "https://b.example") == {"Vary": "Origin"}


def test_every_origin_may_read_but_never_with_credentials() -> None:
    headers = preflight_headers(("*",), "https://b.example")
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in headers


def test_a_preflight_allows_what_our_clients_send() -> None:
    headers = preflight_headers(LISTED, "https://a.example")
    assert "PATCH" in headers["Access-Control-Allow-Methods"]
    allowed = set(headers["Access-Control-Allow-Headers"].split(", "))
    assert {"authorization", "content-type", "last-event-id", "traceparent", "x-firesession-costs"} <= allowed


def test_an_answers_page_may_read_when_to_come_back_and_what_it_has_cost() -> None:
    for allowed in (LISTED, ("*",)):
        exposed = cors_headers(allowed, "https://a.example")["Access-Control-Expose-Headers"].split(", ")
        assert set(exposed) == {"Retry-After", "server-timing", "x-firesession-costs"}


def test_only_a_browsers_question_is_a_preflight() -> None:
    question = {"origin": "https://a.example", "access-control-request-method": "POST"}
    assert is_preflight("OPTIONS", question)
    assert not is_preflight("POST", question)
    assert not is_preflight("OPTIONS", {"origin": "https://a.example"})
