"""Stands between clients and a real server, and kills that server in the middle of what it does."""

import select
import socket
import threading

# The first bytes of a request's messages that let the server be killed: a few requests have come by
# then.
AFTER_BYTES = 6_000


class KillingProxy:
    """Passes bytes on. For each client it kills the server once, after a number of bytes from that client."""

    def __init__(self, server):
        self._server = server
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.restarts = 0
        self._armed = True
        self._bytes = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self):
        """For the next client."""
        with self._lock:
            self._armed, self._bytes, self.restarts = True, 0, 0

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        host, _, port = self._server.address.rpartition(":")
        try:
            server = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            client.close()
            return
        try:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is client and self._over(len(data)):
                        self._server.kill_and_start()
                        return
                    (server if ready is client else client).sendall(data)
        except OSError:
            return
        finally:
            client.close()
            server.close()

    def _over(self, count):
        with self._lock:
            self._bytes += count
            if not self._armed or self._bytes < AFTER_BYTES:
                return False
            self._armed = False
            self.restarts += 1
            return True

    def stop(self):
        self._socket.close()
