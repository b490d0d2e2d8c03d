"""An emulator's first write. Holds no test."""

import urllib.request


def warm_up(host: str) -> None:
    """A first write, which takes an emulator that has just started longer than a store waits for an answer."""
    url = f"http://{host}/v1/projects/demo-warm-up/databases/(default)/documents/warm"
    headers = {"Authorization": "Bearer owner", "Content-Type": "application/json"}
    request = urllib.request.Request(url, b'{"fields": {}}', headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=90) as answer:
        assert answer.status == 200
