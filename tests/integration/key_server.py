"""A local address of public keys, as Google's are in production. Holds no test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.unit.token_issuer import ACCOUNT, AUDIENCE, PROJECT, Issuer, key_set


class KeyServer:
    """Answers every GET with `body`; `may_answer` holds answers back while it is cleared."""

    def __init__(self, *issuers: Issuer) -> None:
        self.body = key_set(*issuers)
        self.status = 200
        self.max_age = 3600
        self.asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def settings(self) -> dict[str, str]:
        """Those of a server that takes this address's tokens."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"
        return {
            "AUTH": "firebase",
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "FIREBASE_KEYS_URL": url,
            "OIDC_KEYS_URL": url,
            "SCHEDULER_ACCOUNT": ACCOUNT,
            "OIDC_AUDIENCE": AUDIENCE,
            "TENANT_CLAIM": "org",
        }

    @contextmanager
    def running(self) -> Iterator["KeyServer"]:
        """Serves until the context is left."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.may_answer.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        keys = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                keys.asked += 1
                keys.may_answer.wait(10)
                self.send_response(keys.status)
                self.send_header("Cache-Control", f"public, max-age={keys.max_age}")
                self.send_header("Content-Length", str(len(keys.body)))
                self.end_headers()
                self.wfile.write(keys.body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nobody reads it."""

        return Handler
