#!/usr/bin/env python3
"""Runs the cases of the fake cluster against an API server, to show that the fakes do as a server does.

    pilothouse apiserver --insecure-http --listen 127.0.0.1:8001     # or, for any cluster, kubectl proxy
    python3 guest-sdk/testing/check_server.py http://127.0.0.1:8001

Each case gets namespaces of its own, which are deleted at the end. Left out are cases with `fakeOnly`, the operations of the host (watches,
queue, writes), and errors with which the host refuses a request before it sends it.
"""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

TABLE = json.loads((Path(__file__).parent / "cases.json").read_text())
#: The resources of the kinds in the cases, and whether they are namespaced.
RESOURCES = {
    "ConfigMap": ("configmaps", True),
    "Deployment": ("deployments", True),
    "Foo": ("foos", True),
    "Moose": ("moose", False),
    "Namespace": ("namespaces", False),
    "Secret": ("secrets", True),
    "CustomResourceDefinition": ("customresourcedefinitions", False),
}
OF_THE_HOST = {"writes", "cacheGet", "cacheList", "byIndex", "indexKeys", "indexValues"}
#: Errors with which the host refuses a request: a code, or the field that is invalid.
REFUSED = {"denied", "metadata.namespace", "apiVersion", "kind", "fieldManager"}
TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Refused(Exception):
    """An answer of the server that is an error, as the cases write it."""

    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.error = error


class Server:
    def __init__(self, url):
        self.url = url.rstrip("/")

    def send(self, method, path, body=None, content_type="application/json", **query):
        query = {name: value for name, value in query.items() if value}
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}" if query else self.url + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": content_type, "Accept": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(from_status(error.code, json.load(error))) from None

    def path(self, of, key, subresource=""):
        plural, namespaced = RESOURCES[of["kind"]]
        version = of["apiVersion"]
        namespace, _, name = key.rpartition("/")
        parts = ["/apis" if "/" in version else "/api", version]
        parts += ["namespaces", namespace] if namespaced and namespace else []
        return "/".join(part for part in [*parts, plural, name, subresource] if part)


def from_status(code, status):
    reason, message = status.get("reason", ""), status.get("message", "")
    causes = [{"field": "", "reason": "", "message": "", **cause} for cause in (status.get("details") or {}).get("causes") or []]
    # kube-apiserver validates the metadata of an update twice, and lists each cause as often.
    causes = [cause for index, cause in enumerate(causes) if cause not in causes[:index]]
    if code == 404:
        return {"code": "not-found", "message": message}
    if code == 409:
        return {"code": "already-exists" if reason == "AlreadyExists" else "conflict", "message": message}
    if code == 422:
        return {"code": "invalid", "causes": causes or [{"field": "", "reason": reason, "message": message}]}
    if code == 403:
        return {"code": "forbidden", "message": message}
    return {"code": "other", "status": code, "reason": reason, "message": message}


class Case:
    def __init__(self, server, number):
        self.server = server
        self.variables = {}
        self.names = {name: f"case-{number}-{name}" for name in ("a", "b")}

    def run(self, steps):
        for position, step in enumerate(steps):
            operation = next(iter(step))
            if operation in OF_THE_HOST or is_refused(step.get("error")):
                continue
            argument = self.filled(step[operation])
            try:
                result, error = getattr(self, operation)(argument, step), None
            except Refused as refused:
                result, error = None, refused.error
            where = f"step {position + 1}, {operation}"
            if "error" in step:
                if error is None:
                    raise AssertionError(f"{where}: it returned {json.dumps(result)}")
                self.expect(step["error"], error, where)
            elif error is not None:
                raise AssertionError(f"{where}: {error}")
            elif "returns" in step:
                self.expect(step["returns"], result, where)

    def prepare(self):
        for name in self.names.values():
            self.server.send("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def clean(self):
        for name in self.names.values():
            for kind in ("ConfigMap", "Foo"):
                of = {"apiVersion": "v1" if kind == "ConfigMap" else "example.com/v1", "kind": kind}
                for found in self.server.send("GET", self.server.path(of, f"{name}/"))["items"]:
                    body = {"metadata": {"finalizers": None}}
                    path = self.server.path(of, f"{name}/{found['metadata']['name']}")
                    self.server.send("PATCH", path, body, TYPES["merge"])
            self.server.send("DELETE", f"/api/v1/namespaces/{name}")
        for found in self.server.send("GET", "/apis/example.com/v1/moose")["items"]:
            self.server.send("DELETE", f"/apis/example.com/v1/moose/{found['metadata']['name']}")

    def filled(self, value, name=""):
        if isinstance(value, dict):
            return {name: self.filled(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        if isinstance(value, str) and value.startswith("$"):
            return self.variables[value]
        if name == "namespace":
            return self.names.get(value, value)
        if name == "key" and "/" in value:
            namespace, _, rest = value.partition("/")
            return f"{self.names.get(namespace, namespace)}/{rest}"
        return value

    def expect(self, pattern, found, where):
        if isinstance(pattern, dict):
            if not isinstance(found, dict):
                raise AssertionError(f"{where} is {found!r}")
            for name, inner in pattern.items():
                if name == "namespace":
                    inner = self.names.get(inner, inner)
                self.expect(inner, found.get(name), f"{where}.{name}")
        elif isinstance(pattern, list):
            if not isinstance(found, list) or len(found) != len(pattern):
                raise AssertionError(f"{where} is {found!r}, not {pattern!r}")
            for position, inner in enumerate(pattern):
                self.expect(inner, found[position], f"{where}[{position}]")
        elif isinstance(pattern, str) and pattern.startswith("!"):
            other = self.variables.get(pattern[1:], pattern[1:])
            if not isinstance(found, str) or not found or found == other:
                raise AssertionError(f"{where} is {found!r}, not {pattern!r}")
        elif isinstance(pattern, str) and pattern.startswith("$"):
            if not isinstance(found, str) or self.variables.setdefault(pattern, found) != found:
                raise AssertionError(f"{where} is {found!r}, and {pattern} is {self.variables.get(pattern)!r}")
        elif pattern != found:
            raise AssertionError(f"{where} is {found!r}, not {pattern!r}")

    # The operations.

    def named(self, manifest, step):
        metadata = manifest["metadata"]
        key = f"{metadata['namespace']}/{metadata.get('name', '')}" if "namespace" in metadata else metadata["name"]
        return self.server.path(manifest, key, step.get("subresource", ""))

    def create(self, manifest, step):
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "name"}
        return self.server.send("POST", self.named({**manifest, "metadata": {**metadata, "name": ""}}, step), manifest, fieldManager="cases")

    def update(self, manifest, step):
        return self.server.send("PUT", self.named(manifest, step), manifest, fieldManager="cases")

    def patch(self, ref, step):
        path = self.server.path(ref, ref["key"], step.get("subresource", ""))
        return self.server.send("PATCH", path, ref["body"], TYPES[ref["type"]], fieldManager="cases")

    def apply(self, manifest, step):
        options = {"fieldManager": step.get("fieldManager", "cases"), "force": "true" if step.get("force") else ""}
        return self.server.send("PATCH", self.named(manifest, step), manifest, TYPES["apply"], **options)

    def delete(self, ref, _):
        given = {name: ref[name] for name in ("uid", "resourceVersion") if name in ref}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": given}
        self.server.send("DELETE", self.server.path(ref, ref["key"]), body)

    def get(self, ref, step):
        return self.server.send("GET", self.server.path(ref, ref["key"], step.get("subresource", "")))

    def list(self, query, _):
        options = {"labelSelector": query.get("labels"), "fieldSelector": query.get("fields"), "limit": query.get("limit")}
        path = self.server.path(query, f"{query.get('namespace', '')}/")
        found = self.server.send("GET", path, **options, **{"continue": query.get("cursor")})
        own = {long: short for short, long in self.names.items()}
        keys = [f"{own.get(item['metadata']['namespace'])}/{item['metadata']['name']}" for item in found["items"]]
        return {"keys": keys, "next": found["metadata"].get("continue", "")}


def is_refused(error):
    if error is None:
        return False
    fields = {cause.get("field") for cause in error.get("causes", [])}
    return error["code"] in REFUSED or not fields.isdisjoint(REFUSED)


def install(server, crd):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    try:
        server.send("POST", path, crd)
    except Refused as refused:
        if refused.error["code"] != "already-exists":
            raise
    for _ in range(100):
        conditions = server.send("GET", f"{path}/{crd['metadata']['name']}").get("status", {}).get("conditions", [])
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            return
        time.sleep(0.1)
    raise SystemExit(f"the CRD {crd['metadata']['name']} is not established")


def main(url):
    server = Server(url)
    for crd in TABLE["plugin"]["crds"]:
        install(server, crd)
    failed = 0
    run = [case for case in TABLE["cases"] if not case.get("fakeOnly")]
    for number, one in enumerate(run):
        case = Case(server, f"{int(time.time()) % 100_000}-{number}")
        case.prepare()
        try:
            case.run(one["steps"])
        except AssertionError as error:
            failed += 1
            print(f"FAILED {one['name']}\n  {error}")
        finally:
            case.clean()
    print(f"{len(run) - failed} of {len(run)} cases hold")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))
