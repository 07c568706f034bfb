"""Runs the embedded API server of Pilothouse for tests of Kubernetes controllers.

    with pilothouse_testserver.start() as server:
        kubernetes.config.load_kube_config(server.kubeconfig)
        server.inject(verb="update", resource="pods", code=409)

It starts the binary `pilothouse` on a free port. Only the standard library is needed.
"""

import base64
import json
import os
import pathlib
import ssl
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

# How many seconds the server may take to start, to answer a request and to stop.
TIMEOUT = 30


class ServerError(Exception):
    """The server did not start, or refused a request."""


class Server:
    """A running API server. Faults and snapshots are enabled. It stops at the end of a `with` block, or with `stop`."""

    def __init__(self, binary=None, flags=()):
        """Starts the binary: by default $PILOTHOUSE_BINARY, or else pilothouse in $PATH. `flags` are further flags of `apiserver`."""
        self._folder = tempfile.TemporaryDirectory(prefix="pilothouse-")
        self._process = None
        self._reader = None
        # The path of the administrator's kubeconfig.
        self.kubeconfig = str(pathlib.Path(self._folder.name, "kubeconfig"))
        try:
            self._start(binary or os.environ.get("PILOTHOUSE_BINARY") or "pilothouse", flags)
        except BaseException as error:
            log = self._log()
            self.stop()
            if not isinstance(error, Exception):
                # Such as KeyboardInterrupt.
                raise
            raise ServerError(f"cannot start the API server: {error}\n{log}") from error

    def _log(self):
        path = pathlib.Path(self._folder.name, "log")
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self, binary, flags):
        command = [binary, "apiserver", "--listen", "127.0.0.1:0", "--enable-faults", "--kubeconfig-out", self.kubeconfig, *flags]
        with open(pathlib.Path(self._folder.name, "log"), "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        # Ends the process, and so the read below, if it prints nothing.
        timer = threading.Timer(TIMEOUT, self._process.kill)
        timer.start()
        try:
            first = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not first:
            raise ServerError("it ended, or printed no address in time")
        # Read to the end, so that the server never waits for a reader.
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()
        config = json.loads(pathlib.Path(self.kubeconfig).read_text())
        cluster = config["clusters"][0]["cluster"]
        # The address of the server.
        self.url = cluster["server"]
        self._token = config["users"][0]["user"].get("token")
        # No proxy from the environment: the server is on this machine, and a proxy must not see the token.
        handlers = [urllib.request.ProxyHandler({})]
        if "certificate-authority-data" in cluster:
            certificate = base64.b64decode(cluster["certificate-authority-data"], validate=True)
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=certificate.decode())))
        self._opener = urllib.request.build_opener(*handlers)
        self.call("GET", "/readyz")

    def inject(self, **fault):
        """Injects a fault. The arguments are the members of POST /debug/faults, such as verb, resource, code and count."""
        self.call("POST", "/debug/faults", fault)

    def clear_faults(self):
        """Removes all faults. Frozen watches continue."""
        self.call("DELETE", "/debug/faults")

    def take_snapshot(self, name):
        """Saves all objects under a name: lower case letters, digits and hyphens."""
        self.call("POST", "/debug/snapshot", {"name": name})

    def restore_snapshot(self, name):
        """Replaces all objects by those of a snapshot. Watches end with 410."""
        self.call("POST", f"/debug/snapshot/{name}/restore", {})

    def call(self, method, path, body=None):
        """Sends a request with the administrator's credentials, and returns the answer as bytes."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, {"Content-Type": "application/json"}, method=method)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace").strip()
            raise ServerError(f"{method} {path}: {error.code}: {text}") from error

    def stop(self):
        """Ends the server and removes its files. Does nothing when it is called again."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._reader is not None:
                self._reader.join()
            self._process.stdout.close()
            self._process = None
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def start(binary=None, flags=()):
    """Starts a server and waits until it is ready."""
    return Server(binary, flags)
