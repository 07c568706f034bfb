"""The proxy between `pilothouse run` and a real API server, for reproduce.py.

It counts the requests of plugins and the events of watches as `pilothouse sim` does, and injects the faults of a finding.
"""

import http.client
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlencode, urlsplit

TOUCHED = "simulation.pilothouse.dev/touched"
RECORDS = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
HOST_MANAGERS = {"pilothouse-crds", "pilothouse-plugins"}
# Finalizers that an API server adds, and that only controllers remove.
PROTECTION = {"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"}
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
HOP_HEADERS = {"host", "connection", "accept-encoding", "content-length", "transfer-encoding", "keep-alive", "date"}


# Parts of expected texts that may be anything: times, UIDs, generated names and IP addresses.
ANY_TEXT = re.compile(r"<time>|<generation>|<uid of [^>]*>|\*|\d+\.\d+\.\d+\.\d+")
STARTED = time.monotonic()


def say(text):
    """Prints a line with the time since the start."""
    print(f"{time.monotonic() - STARTED:8.2f}  {text}", flush=True)


# Pure functions


def parse_request(method, target):
    """Returns what a request is about: (verb, resource, subresource, namespace, name, query), or None."""
    url = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    parts = [part for part in url.path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, rest = "", parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (rest + ["", ""])[:3]
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete" if name else "deletecollection"}
    is_watch = query.get("watch") in ("true", "1") and not name
    verb = verbs.get(method, ("watch" if is_watch else "get" if name else "list") if method == "GET" else None)
    resource = f"{plural}.{group}" if group else plural
    return (verb, resource, subresource, namespace, name, query) if verb else None


def is_protected(meta):
    """Whether an object is only kept by the API server's own finalizers. The simulation has no such state."""
    finalizers = meta.get("finalizers") or []
    return "deletionTimestamp" in meta and bool(finalizers) and PROTECTION.issuperset(finalizers)


def is_of_plugin(about, relisting):
    """Whether a plugin sent the request, and not the host. `relisting` are resources that an informer is about to list."""
    verb, resource, _, _, _, query = about
    if resource in RECORDS or resource == CRDS or verb == "watch":
        return False
    if verb == "list":
        # Informers name the version that they need.
        return "resourceVersion" not in query and resource not in relisting
    if verb in ("create", "update", "patch"):
        return "fieldManager" in query and query["fieldManager"] not in HOST_MANAGERS
    return True


def matches(expected, found):
    """Whether a value is the expected one. The found object may have more members; times, UIDs and IP addresses may be any."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(name in found and matches(value, found[name]) for name, value in expected.items())
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(matches, expected, found))
    if isinstance(expected, str) and isinstance(found, str):
        pattern = ".+".join(map(re.escape, ANY_TEXT.split(expected)))
        return re.fullmatch(pattern, found) is not None
    return expected == found or (expected == "<generation>" and isinstance(found, int))


def lookup(value, pointer):
    """Returns a list of the value at a JSON pointer, which is empty if there is none."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return []
    return [value]


def holds(fact, objects):
    """Whether a fact holds for the objects of its address."""
    if "count" in fact:
        return len(objects) == fact["count"]
    found = [lookup(item, fact["pointer"]) for item in objects]
    if "absent" in fact:
        return bool(objects) and any(not values or values[0] in ({}, [], None) for values in found)
    return any(values and matches(fact["equals"], values[0]) for values in found)


class Labels:
    """Names the objects of this run as the simulation does: `RESOURCE KEY#N`, in the order of their creation."""

    def __init__(self, random_prefixes):
        self.random_prefixes = random_prefixes
        self.counts, self.uids, self.names, self.of_uid, self.of_name = {}, {}, {}, {}, {}
        self.versions, self.created = {}, {}
        # The prefixes of generated names with `*`, by name.
        self.families = {}

    def family(self, resource, name, item=None):
        """Returns the name, or its prefix and `*` if it was generated."""
        prefix = ((item or {}).get("metadata") or {}).get("generateName")
        if not (prefix and name.startswith(prefix) and len(name) > len(prefix)):
            known = (p for of, p in self.random_prefixes if of == resource and name.startswith(p) and 4 <= len(name) - len(p) <= 16)
            prefix = next(known, None)
        if not prefix:
            return name
        family = prefix + "*"
        # A generated name may begin with another one.
        for known in sorted(self.families, key=len, reverse=True):
            family = family.replace(known, self.families[known])
        return family

    def canonical(self, resource, namespace, name, item=None):
        return f"{resource} {namespace + '/' if namespace else ''}{self.family(resource, name, item)}"

    def see(self, resource, item):
        """Notes the version of an object."""
        meta = item.get("metadata") or {}
        address, version = (resource, meta.get("namespace", ""), meta.get("name", "")), meta.get("resourceVersion", "")
        if version.isdigit():
            self.versions[address] = max(int(version), self.versions.get(address, 0))

    def add(self, resource, item, created=False):
        """Notes an object that was just written. Returns its label."""
        meta = (item or {}).get("metadata") or {}
        uid = meta.get("uid")
        if not uid:
            return None
        self.see(resource, item)
        if uid not in self.of_uid:
            address = self.canonical(resource, meta.get("namespace", ""), meta["name"], item)
            family = self.family(resource, meta["name"], item)
            if family != meta["name"]:
                self.families[meta["name"]] = family
            self.counts[address] = self.counts.get(address, 0) + 1
            label = f"{address}#{self.counts[address]}"
            self.of_uid[uid], self.of_name[(resource, meta.get("namespace", ""), meta["name"])] = label, label
            self.uids[label], self.names[label] = uid, meta["name"]
        if created:
            self.created[uid] = (resource, meta.get("namespace", ""), meta["name"])
        return self.of_uid[uid]

    def label(self, resource, namespace, name, uid=None):
        address = self.canonical(resource, namespace, name)
        return self.of_uid.get(uid) or self.of_name.get((resource, namespace, name)) or address

    def resolve(self, value):
        """Replaces the placeholders in a value. Raises KeyError if an object does not exist."""
        if isinstance(value, dict):
            return {self.resolve(name): self.resolve(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if isinstance(value, str):
            of = {"uid": self.uids, "name": self.names}
            # The text of an object may look like a placeholder: its `${` is `${text:$}{`.
            return re.sub(r"\$\{(uid|name|text):([^}]*)\}", lambda found: found[2] if found[1] == "text" else of[found[1]][found[2]], value)
        return value


def is_reproduced_write(expected, writes, labels):
    """Whether the plugin has sent the expected write, as often and as late as in the simulation."""
    refused = expected.get("refused")
    alike = [
        write
        for write in writes
        if (write["verb"], write["resource"], write["object"]) == (expected["verb"], expected["resource"], expected["object"])
        and (write["status"] == refused if refused else write["changed"])
    ]
    try:
        facts = labels.resolve(expected["facts"])
    except KeyError:
        return False
    late = (write for write in alike[expected["occurrence"] - 1 :] if write["cursor"] >= expected["entries"])
    return any(all(any(matches(value, found) for found in lookup(write["item"], pointer)) for pointer, value in facts.items()) for write in late)


# The world: what the proxy, the host and the timeline share


class World:
    def __init__(self, finding):
        self.finding, self.labels = finding, Labels(finding["randomPrefixes"])
        self.changed = threading.Condition(threading.RLock())
        self.generation, self.cursor, self.effective, self.last_activity, self.paused = 0, 0, 0, time.monotonic(), False
        self.requests, self.events, self.applied = {}, {}, set()
        self.writes, self.in_flight, self.watching = [], set(), set()
        self.held, self.dropped, self.relisting, self.past, self.versions = set(), set(), set(), {}, {}

    def touch(self):
        with self.changed:
            self.last_activity = time.monotonic()
            self.changed.notify_all()

    def idle(self):
        """Returns for how many seconds nothing has happened."""
        with self.changed:
            return 0.0 if self.in_flight else time.monotonic() - self.last_activity

    def wait(self, is_over, timeout):
        with self.changed:
            return self.changed.wait_for(is_over, timeout)

    def due(self, kind, *point):
        """Counts a request or an event. Returns the faults that are due."""
        with self.changed:
            counts = self.requests if kind == "request" else self.events
            counts[point] = counts.get(point, 0) + 1
            moment = [*point, counts[point]]
            found = [(i, f) for i, f in enumerate(self.finding["faults"]) if i not in self.applied and f.get(kind) == moment]
            self.applied.update(i for i, _ in found)
        for _, fault in found:
            say(f"fault    {fault['rule']}: {fault['do']} at {' '.join(map(str, moment))}")
        return [fault for _, fault in found]

    def wait_for_gate(self):
        """Holds a write of the plugin until the steps that came before it in the simulation are taken, if these are not due at rest."""
        with self.changed:
            gates = self.finding["gates"]
            before = gates[self.effective] if self.effective < len(gates) else 0
            pending = self.finding["timeline"][self.cursor : before]
            if pending and not any(entry["after"]["rest"] for entry in pending):
                self.changed.wait_for(lambda: self.cursor >= before, 3.0)

    def record(self, about, status, answer, version):
        """Records a write of the plugin that reached the server. `version` is the object's last known one before the write."""
        verb, resource, subresource, namespace, name, _ = about
        is_item = isinstance(answer, dict) and status < 300 and answer.get("kind") != "Status"
        uid = ((answer or {}).get("details") or {}).get("uid") if isinstance(answer, dict) else None
        with self.changed:
            label = self.labels.add(resource, answer, status == 201) if is_item else None
            changed = status < 300 and not (is_item and answer["metadata"].get("resourceVersion") == str(version))
            label = label or self.labels.label(resource, namespace, name, uid)
            if verb == "create":
                label = label.split("#")[0]
            path = f"{resource}/{subresource}" if subresource else resource
            self.effective += changed
            item = answer if is_item else {}
            self.writes.append(
                {"verb": verb, "resource": path, "object": label, "status": status, "changed": changed, "item": item, "cursor": self.cursor}
            )
            say(f"plugin   {verb} {path} {label.split(' ', 1)[-1]} → {status}{'' if changed else ' (no change)'}")
            self.touch()

    def version_before(self, resource, changes):
        versions = self.versions.get(resource, [])
        return max(1, versions[max(0, len(versions) - changes)] - 1) if changes and versions else None


# The connection to the API server, and the proxy


class Api:
    """A client of the API server, through `kubectl proxy`."""

    def __init__(self, port):
        self.port = port

    def open(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request(method, path, body, headers or {})
        return connection.getresponse()

    def send(self, method, path, body=None, content_type="application/json"):
        data = None if body is None else json.dumps(body)
        response = self.open(method, path, data, {"Content-Type": content_type, "Accept": "application/json"})
        text = response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, {"message": text.decode(errors="replace")[:300]}


class Proxy(BaseHTTPRequestHandler):
    """One connection of the host. Requests of plugins and events of watches are counted, and faults are injected."""

    protocol_version = "HTTP/1.1"
    world = api = host = None

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the host has ended, or its request was given up

    def forward_request(self):
        self.generation = self.world.generation
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
        about = parse_request(self.command, self.path)
        if about is None:
            self.answer(*self.forward(self.path, body, headers))
        elif about[0] == "watch":
            self.watch(about[1], headers)
        elif is_of_plugin(about, self.world.relisting):
            self.plugin_request(about, body, headers)
        elif about[0] == "list":
            self.answer(*self.forward(self.list_path(about), body, headers))
        else:
            self.answer(*self.forward(self.path, body, headers))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward_request

    def forward(self, path, body, headers):
        response = self.api.open(self.command, path, body, headers)
        return response.status, response.read(), response.headers.get("Content-Type", "application/json")

    def answer(self, status, content, content_type="application/json"):
        if self.generation != self.world.generation:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, code, reason, message):
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
        self.answer(code, json.dumps(status).encode())

    def plugin_request(self, about, body, headers):
        verb, resource, subresource, *_ = about
        path = f"{resource}/{subresource}" if subresource else resource
        self.world.touch()
        self.world.in_flight.add(self)
        try:
            faults = {fault["do"]: fault for fault in self.world.due("request", verb, path)}
            if verb in WRITES:
                self.world.wait_for_gate()
            if "delay" in faults:
                time.sleep(faults["delay"]["milliseconds"] / 1000)
            if self.generation != self.world.generation:
                self.close_connection = True
                return
            self.exchange(about, body, headers, faults)
        finally:
            self.world.in_flight.discard(self)
            self.world.touch()

    def exchange(self, about, body, headers, faults):
        if "reload" in faults:
            self.host.reload()
        if "crash-before" in faults or "restart" in faults:
            self.close_connection = True
            self.host.restart(faults.get("restart", {}).get("past", []))
            return
        if "refuse" in faults:
            code = faults["refuse"]["code"]
            reasons = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
            self.refuse(code, reasons.get(code, ""), f"refused with {code} by the proxy")
            return
        if "interfere" in faults:
            patch = {"metadata": {"annotations": {TOUCHED: str(time.time())}}}
            _, item = self.api.send("PATCH", self.object_path(about), patch, "application/merge-patch+json")
            self.world.labels.add(about[1], item if item.get("kind") != "Status" else None)
        version = self.world.labels.versions.get((about[1], about[3], about[4]))
        status, content, content_type = self.forward(self.path, body, headers)
        if about[0] in WRITES:
            answer = parse_json(content)
            self.world.record(about, status, answer, version)
            self.host.release_protection(self.object_path(about), answer)
        elif about[0] == "get" and status == 200:
            self.world.labels.see(about[1], parse_json(content) or {})
        if "crash-after" in faults:
            self.close_connection = True
            self.host.restart([])
        elif "lose-answer" in faults:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.answer(status, content, content_type)

    def object_path(self, about):
        path = urlsplit(self.path).path
        return path[: -len(about[2]) - 1] if about[2] else path

    def list_path(self, about):
        """Returns the path of a list of an informer, which is answered from the past if the finding needs that."""
        with self.world.changed:
            self.world.relisting.discard(about[1])
            version = self.world.version_before(about[1], self.world.past.pop(about[1], 0))
            if not version:
                return self.path
            self.world.held.add(about[1])
        say(f"fault    V3: the first list of {about[1]} is that of version {version}")
        kept = {name: value for name, value in about[5].items() if name in ("labelSelector", "fieldSelector")}
        return f"{urlsplit(self.path).path}?{urlencode({**kept, 'resourceVersion': version, 'resourceVersionMatch': 'Exact'})}"

    def watch(self, resource, headers):
        query = parse_qs(urlsplit(self.path).query)
        if "sendInitialEvents" in query:
            self.refuse(422, "Invalid", "sendInitialEvents: the proxy has no streaming lists")
            return
        world = self.world
        if resource in world.dropped:
            world.wait(lambda: resource not in world.dropped or self.generation != world.generation, None)
            world.relisting.add(resource)
            self.refuse(410, "Expired", "too old resource version")
            return
        response = self.api.open("GET", self.path, None, headers, timeout=3600)
        if response.status != 200:
            self.answer(response.status, response.read())
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with world.changed:
            world.watching.add(resource)
        world.touch()
        for line in response:
            if not self.deliver(resource, line):
                break
        self.close_connection = True
        self.wfile.write(b"0\r\n\r\n")

    def deliver(self, resource, line):
        """Delivers an event to the host. Returns whether the watch goes on."""
        world, event = self.world, parse_json(line) or {}
        item = event.get("object") or {}
        meta = item.get("metadata") or {}

        def is_free():
            return self.generation != world.generation or not (resource in world.held or world.paused)

        address = world.labels.canonical(resource, meta.get("namespace", ""), meta.get("name", ""), item)
        if event.get("type") in ("ADDED", "MODIFIED", "DELETED") and address in world.finding["objects"]:
            world.wait(is_free, None)
            if self.generation != world.generation:
                return False
            with world.changed:
                world.labels.see(resource, item)
            for fault in [] if is_protected(meta) else world.due("event", resource):
                if fault["do"] == "hold":
                    world.held.add(resource)
                elif fault["do"] == "drop":
                    world.dropped.add(resource)
                    world.touch()
                    return False
                elif fault["do"] == "reload":
                    self.host.reload()
                else:
                    self.host.restart(fault.get("past", []))
            world.touch()
        world.wait(is_free, None)
        if self.generation != world.generation:
            return False
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()
        if event.get("type") != "BOOKMARK":
            world.touch()
        return True


def parse_json(content):
    try:
        return json.loads(content)
    except ValueError:
        return None
