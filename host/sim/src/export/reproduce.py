#!/usr/bin/env python3
"""Provokes a finding of `pilothouse sim` on a real API server.

    python3 reproduce.py [--kubeconfig FILE] [--pilothouse PROGRAM] [--plugin FILE.wasm]

The script needs Python 3.9, kubectl and pilothouse. It creates custom resource definitions and objects in the cluster and deletes them at
the end, so use a cluster that you can throw away. It refuses to run if one of the objects exists already.

It starts `pilothouse run` behind a small proxy on loopback (proxy.py). The file finding.json lists what the actors of the simulation did,
and the faults. The script repeats the actors' writes in the order of the simulation, and the proxy injects the faults. Then the script
compares what the plugin has written, or the objects at rest, with the finding.

With --plugin, another version of the plugin runs in the same situation. This shows whether a fix helps on a real API server.

Exit codes: 1 reproduced, 0 not reproduced, 2 the script could not run.
"""

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

from proxy import CRDS, Api, Proxy, World, holds, is_protected, is_reproduced_write, parse_json, say

FORMAT = "pilothouse.dev/simulation-export/v1"
REST = 2.0  # seconds without activity after which the world is at rest
END = 5.0  # seconds without activity after which the objects are compared
PATIENCE = 15.0  # seconds without activity after which a comparison that fails is final
LIMIT = 180.0  # seconds after the last step within which the finding must show
START = 90.0  # seconds within which the host must have started its watches
CONTROLLERS = 20.0  # seconds within which the controllers of the cluster must have acted


class CannotRun(Exception):
    """The finding can be neither reproduced nor refuted."""


class Host:
    """The process `pilothouse run`, which ends and starts again as the finding wants it."""

    def __init__(self, world, api, program, folder, port):
        self.world, self.api, self.folder, self.process, self.reloads = world, api, folder, None, 0
        self.has_controllers = False
        self.lock = threading.Lock()
        cluster = {"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}
        config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [{"name": "proxy", "user": {}}]}
        config.update({"contexts": [context], "current-context": "proxy"})
        (folder / "kubeconfig").write_text(json.dumps(config))
        (folder / "host.yaml").write_text("grantCrds: true\n")
        self.command = [program, "run", "--plugins", str(folder / "plugins"), "--kubeconfig", str(folder / "kubeconfig")]
        self.command += ["--config", str(folder / "host.yaml"), "--listen", "127.0.0.1:0", "--cache-dir", str(folder / "cache")]

    def start(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PILOTHOUSE_") and name != "KUBECONFIG"}
        with open(self.folder / "host.log", "ab") as log:
            try:
                self.process = subprocess.Popen(self.command, env=kept, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            except OSError as error:
                raise CannotRun(f"{self.command[0]} cannot be started: {error}; name the program with --pilothouse") from error
        say("host     starts")

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def restart(self, past):
        with self.lock:
            with self.world.changed:
                self.world.generation += 1
                self.world.past = {resource: changes for resource, changes in past}
                for state in (self.world.held, self.world.dropped, self.world.watching, self.world.in_flight, self.world.relisting):
                    state.clear()
            self.end()
            say("host     ends")
            self.start()
            self.world.touch()

    def reload(self):
        """Replaces the first plugin by its upgrade. Without one, changes its sidecar, which has the same effect as a new file."""
        self.reloads += 1
        finding = self.world.finding
        file = self.folder / "plugins" / finding["plugins"][0]
        say("host     reloads the plugin")
        if finding.get("upgrade"):
            shutil.copy(Path(__file__).parent / finding["upgrade"], file.with_suffix(".next"))
            os.replace(file.with_suffix(".next"), file)
        with open(file.with_suffix(".yaml"), "a", encoding="utf-8") as sidecar:
            sidecar.write(f"\n# reload {self.reloads}\n")
        self.world.touch()

    def release_protection(self, path, answer):
        """In a cluster without controllers, removes the finalizers that only these remove."""
        meta = answer.get("metadata") or {} if isinstance(answer, dict) else {}
        if not self.has_controllers and is_protected(meta):
            patch = {"metadata": {"uid": meta["uid"], "finalizers": None}}
            self.api.send("PATCH", path, patch, "application/merge-patch+json")

    def log(self):
        lines = (self.folder / "host.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])


class Timeline:
    """Takes the steps of the finding."""

    def __init__(self, world, api, host):
        self.world, self.api, self.host = world, api, host
        self.differences = []

    def note(self, text):
        self.differences.append(text)
        say(f"note     {text}")

    def set_up(self):
        """Creates the objects that exist before the host starts. Refuses a cluster that has objects of the finding."""
        finding = self.world.finding
        for address in finding["objects"]:
            resource, key = address.split(" ", 1)
            if "*" not in key and objects_at(self.api, finding, self.world.labels, resource, *split_key(key)):
                raise CannotRun(f"the cluster has {address} already; delete it, or use another cluster")
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
        self.host.has_controllers = self.api.send("GET", lease)[0] == 200
        definitions = [write for write in finding["setup"] if write["object"].startswith(CRDS)]
        for write in definitions:
            status, answer = self.api.send(write["method"], write["path"], write["body"])
            if status == 201:
                self.world.labels.add(CRDS, answer, True)
            elif status not in (200, 409):
                raise CannotRun(f"{write['object']} cannot be created: {answer.get('message')}")
        for write in definitions:
            # The path of a created object is that of its collection.
            path = write["path"].split("?")[0]
            name = write["body"]["metadata"]["name"]
            self.until_established(path if write["method"] == "PATCH" else f"{path}/{name}")
        faults = [*finding["timeline"], *finding["faults"]]
        for resource in {resource for fault in faults for resource, _ in fault.get("past") or []}:
            self.observe(resource)
        for write in finding["setup"]:
            if write not in definitions:
                self.write(write)

    def until_established(self, path):
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            item = self.api.send("GET", path)[1]
            conditions = {c["type"]: c["status"] for c in (item.get("status") or {}).get("conditions") or []}
            if conditions.get("Established") == "True":
                return
            time.sleep(0.2)
        raise CannotRun(f"{path} was not established within {START:.0f} s")

    def observe(self, resource):
        """Notes the versions of all changes of a resource, from which a list of the past is chosen."""
        world, served = self.world, self.world.finding["resources"].get(resource)
        versions = world.versions.setdefault(resource, [])
        if not served:
            return
        path = f"{served['prefix']}/{served['plural']}"
        start = self.api.send("GET", path)[1].get("metadata", {}).get("resourceVersion", "0")

        def follow():
            response = self.api.open("GET", f"{path}?watch=true&resourceVersion={start}", timeout=3600)
            for line in response:
                meta = ((parse_json(line) or {}).get("object") or {}).get("metadata") or {}
                address = world.labels.canonical(resource, meta.get("namespace", ""), meta.get("name", ""), {"metadata": meta})
                if address in world.finding["objects"] and not is_protected(meta):
                    versions.append(int(meta["resourceVersion"]))

        threading.Thread(target=follow, daemon=True).start()

    def run(self):
        actions = {"write": self.write, "controller": self.controller, "restart": lambda entry: self.host.restart(entry["past"])}
        actions["reload"] = lambda _: self.host.reload()
        actions["release"] = lambda entry: self.world.held.discard(entry["resource"])
        actions["relist"] = lambda entry: self.world.dropped.discard(entry["resource"])
        for entry in self.world.finding["timeline"]:
            self.wait_for(entry)
            with self.world.changed:
                self.world.paused = self.world.paused or entry["together"]
            if entry["do"] in ("release", "relist"):
                say(f"proxy    {entry['resource']}: {'the watch goes on' if entry['do'] == 'release' else 'the host lists again'}")
            actions[entry["do"]](entry)
            with self.world.changed:
                self.world.cursor += 1
                self.world.paused = entry["together"]
            self.world.touch()

    def catch_up(self):
        """Delivers what is still held back."""
        with self.world.changed:
            self.world.held.clear()
            self.world.dropped.clear()
        self.world.touch()

    def wait_for(self, entry):
        world, after, begin = self.world, entry["after"], time.monotonic()
        while True:
            self.check_host()
            is_ready = not (after["ready"] or after["rest"]) or world.watching.issuperset(world.finding["watched"])
            if not is_ready and time.monotonic() - begin > START:
                raise CannotRun(f"the host did not start its watches within {START:.0f} s; its log ends with:\n{self.host.log()}")
            is_due = is_ready and world.effective >= after["writes"] and self.has_come(entry)
            if is_due and (not after["rest"] or world.idle() >= REST):
                return
            idle = min(world.idle(), time.monotonic() - begin)
            if is_ready and not is_due and idle >= after["patience"] / 1000:
                expected, found = after["writes"], world.effective
                reason = f"the plugin has made {found} writes instead of {expected}" if found < expected else "a fault did not come"
                self.note(f"{reason}; the next step is taken nevertheless")
                return
            world.wait(lambda: False, 0.05)

    def has_come(self, entry):
        """Whether the request, the event or the fault that the step belongs to has come."""
        world, after = self.world, entry["after"]
        of_request, of_event = after.get("request"), after.get("event")
        if of_request and world.requests.get(tuple(of_request[:-1]), 0) < of_request[-1]:
            return False
        if of_event and world.events.get(tuple(of_event[:-1]), 0) < of_event[-1]:
            return False
        if entry["do"] == "release":
            return entry["resource"] in world.held
        return entry["do"] != "relist" or entry["resource"] in world.dropped

    def check_host(self):
        with self.host.lock:
            code = self.host.process.poll()
        if code is not None:
            raise CannotRun(f"the host ended with {code}; its log ends with:\n{self.host.log()}")

    def write(self, write):
        """Sends a write of an actor. Like the actors of the simulation, repeats it while the server refuses it for now."""
        label = f"{write['method']} {write['object']}"
        try:
            path, body = self.world.labels.resolve(write["path"]), self.world.labels.resolve(write.get("body"))
        except KeyError as missing:
            self.note(f"{write['who']} cannot {label}: there is no {missing}")
            return
        for attempt in range(20):
            status, answer = self.api.send(write["method"], path, body, write["contentType"])
            if status not in (404, 409, 429) and status < 500:
                break
            time.sleep(0.1 if attempt < 5 else 0.5)
        if status >= 300:
            self.note(f"{write['who']} cannot {label}: {status} {answer.get('message')}")
            return
        if answer.get("kind") != "Status":
            self.world.labels.add(write["object"].split(" ")[0], answer, status == 201)
            self.host.release_protection(path.split("?")[0], answer)
        say(f"{write['who']:<8} {label} → {status}")

    def controller(self, write):
        """Waits for what a built-in controller of the cluster does. In a cluster without controllers, does it."""
        try:
            path, body = self.world.labels.resolve(write["path"]), self.world.labels.resolve(write.get("body"))
        except KeyError as missing:
            self.note(f"the garbage collector has nothing to do: there is no {missing}")
            return
        uid = (body.get("preconditions") or body.get("metadata") or {}).get("uid")
        deadline = time.monotonic() + (CONTROLLERS if self.host.has_controllers else 0)
        while True:
            status, item = self.api.send("GET", path)
            meta = item.get("metadata") or {}
            if status == 404 or meta.get("uid") != uid or (write["method"] == "DELETE" and "deletionTimestamp" in meta):
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(0.2)
        status, answer = self.api.send(write["method"], path, body, write["contentType"])
        self.world.labels.add(write["object"].split(" ")[0], answer if status < 300 and answer.get("kind") != "Status" else None)
        say(f"gc       {write['method']} {write['object']} → {status}")

    def judge(self):
        """Waits until the finding shows, or nothing happens any more. Returns whether it was reproduced."""
        expected, begin = self.world.finding["expected"], time.monotonic()
        # A write that the oracle reported may depend on a watch that is late. At rest, no watch is.
        has_caught_up = expected["kind"] == "end"
        if has_caught_up:
            self.catch_up()
        while True:
            self.check_host()
            idle = min(self.world.idle(), time.monotonic() - begin)
            if expected["kind"] == "write" and is_reproduced_write(expected, self.world.writes, self.world.labels):
                return True
            if expected["kind"] == "end" and idle >= END and not self.false_facts(expected["facts"]):
                return True
            if idle >= PATIENCE or time.monotonic() - begin > LIMIT:
                if has_caught_up:
                    return False
                has_caught_up = True
                self.catch_up()
            self.world.wait(lambda: False, 0.2)

    def false_facts(self, facts):
        """Returns the facts that do not hold."""
        finding, labels = self.world.finding, self.world.labels
        at = lambda fact: objects_at(self.api, finding, labels, fact["resource"], fact["namespace"], fact["name"])  # noqa: E731
        return [fact for fact in facts if not holds(fact, at(fact))]


def split_key(key):
    namespace, _, name = key.rpartition("/")
    return namespace, name


def objects_at(api, finding, labels, resource, namespace, name):
    """Returns the objects at an address; those with a generated name share one."""
    served = finding["resources"].get(resource)
    if not served:
        return []
    within = f"/namespaces/{namespace}" if namespace else ""
    path = f"{served['prefix']}{within}/{served['plural']}"
    if not name.endswith("*"):
        status, item = api.send("GET", f"{path}/{name}")
        return [item] if status == 200 else []
    status, page = api.send("GET", path)
    address = f"{resource} {namespace + '/' if namespace else ''}{name}"
    items = page.get("items") or [] if status == 200 else []
    return [item for item in items if labels.canonical(resource, namespace, item["metadata"]["name"], item) == address]


def clean_up(api, world):
    """Deletes what the actors and the plugin have created, in the opposite order."""
    finding = world.finding
    paths = []
    for resource, namespace, name in reversed(list(world.labels.created.values())):
        served = finding["resources"].get(resource)
        if resource == CRDS:
            paths.append(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        elif served:
            within = f"/namespaces/{namespace}" if namespace else ""
            paths.append(f"{served['prefix']}{within}/{served['plural']}/{name}")
    for path in paths:
        if "customresourcedefinitions/" not in path:
            api.send("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        api.send("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    deadline = time.monotonic() + CONTROLLERS
    left = paths
    while left and time.monotonic() < deadline:
        left = [path for path in left if api.send("GET", path)[0] == 200]
        time.sleep(0.2 if left else 0)
    if left:
        say(f"note     not deleted: {', '.join(left)}")


def start_kubectl_proxy(arguments):
    command = ["kubectl", "proxy", "--port=0"]
    command += [f"--kubeconfig={arguments.kubeconfig}"] if arguments.kubeconfig else []
    command += [f"--context={arguments.context}"] if arguments.context else []
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise CannotRun(f"kubectl cannot be started: {error}; install it") from error
    line = process.stdout.readline()
    if "Starting to serve on" not in line:
        process.kill()
        raise CannotRun(f"kubectl proxy does not serve: {line.strip()}; check --kubeconfig")
    return process, int(line.rsplit(":", 1)[1])


def read_finding(folder):
    finding = json.loads((folder / "finding.json").read_text(encoding="utf-8"))
    if finding.get("format") != FORMAT:
        raise CannotRun(f"finding.json has the format {finding.get('format')!r}, this script reads {FORMAT!r}; export the finding again")
    return finding


def prepare(folder, source, finding, plugin):
    """Copies the plugins, one of which may be replaced by another version under the same name."""
    (folder / "plugins").mkdir()
    for name in finding["plugins"]:
        shutil.copy(source / name, folder / "plugins" / name)
        sidecar = (source / name).with_suffix(".yaml")
        if sidecar.is_file():
            shutil.copy(sidecar, folder / "plugins" / sidecar.name)
    if plugin:
        shutil.copy(plugin, folder / "plugins" / finding["plugins"][0])


def reproduce(arguments, folder):
    source = Path(__file__).resolve().parent
    finding = read_finding(source)
    print("\n".join(["The finding:", *finding["story"], ""]))
    prepare(folder, source, finding, arguments.plugin)
    kubectl, port = start_kubectl_proxy(arguments)
    world, api = World(finding), Api(port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    host = Host(world, api, arguments.pilothouse, folder, server.server_address[1])
    Proxy.world, Proxy.api, Proxy.host = world, api, host
    threading.Thread(target=server.serve_forever, daemon=True).start()
    timeline = Timeline(world, api, host)
    try:
        timeline.set_up()
        host.start()
        timeline.run()
        is_reproduced = timeline.judge()
        false_facts = timeline.false_facts(finding["expected"].get("facts") or []) if finding["expected"]["kind"] == "end" else []
    finally:
        host.end()
        if not arguments.keep:
            clean_up(api, world)
        kubectl.kill()
    report(finding, world, timeline, is_reproduced, false_facts)
    return is_reproduced


def report(finding, world, timeline, is_reproduced, false_facts):
    found = [f"{write['verb']} {write['object']} → {write['status']}" for write in world.writes]
    print("\nWrites of the plugin in the simulation:", *finding["writes"], "\nWrites of the plugin here:", *found, sep="\n  ")
    for text in timeline.differences:
        print(f"note: {text}")
    if is_reproduced:
        print(f"\nreproduced: {finding['oracle']}: {finding['explanation']}")
        return
    expected = finding["expected"]
    if expected["kind"] == "write":
        what = f"the plugin did not {expected['verb']} {expected['object']} ({expected['resource']}, no. {expected['occurrence']}) at the end"
    else:
        what = "; ".join(f"{fact['resource']} {fact['name']}: not {json.dumps({k: fact[k] for k in fact if k not in ('resource', 'namespace', 'name')})}" for fact in false_facts)
    print(f"\nnot reproduced: {what or 'the objects at rest had the state of the finding only for a moment'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog="Exit codes: 1 reproduced, 0 not reproduced, 2 could not run.")
    parser.add_argument("--kubeconfig", help="kubeconfig of a cluster that can be thrown away; kubectl's default without it")
    parser.add_argument("--context", help="context of the kubeconfig")
    parser.add_argument("--pilothouse", default="pilothouse", help="the program, if it is not on PATH")
    parser.add_argument("--plugin", type=Path, help="another version of the first plugin")
    parser.add_argument("--keep", action="store_true", help="keep the objects in the cluster")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pilothouse-finding-"))
    try:
        return 1 if reproduce(arguments, folder) else 0
    except (CannotRun, OSError, ValueError, http.client.HTTPException) as problem:
        print(f"could not run: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        print("could not run: interrupted", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
