/**
 * Runs the embedded API server of Pilothouse for tests of Kubernetes controllers.
 *
 *     const server = await start();
 *     config.loadFromFile(server.kubeconfig);
 *     await server.inject({ verb: "update", resource: "pods", code: 409 });
 *     await server.stop();
 *
 * It starts the binary `pilothouse` on a free port.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How many milliseconds the server may take to start, to answer a request and to stop. */
const TIMEOUT = 30_000;

/** A running API server. Faults and snapshots are enabled. */
export class Server {
  #folder;
  #process;
  #exited;
  #token;
  #authority;

  constructor(folder) {
    this.#folder = folder;
    /** The path of the administrator's kubeconfig. */
    this.kubeconfig = join(folder, "kubeconfig");
    /** The address of the server. */
    this.url = "";
  }

  /** Starts the process and waits until it is ready. */
  async run(binary, flags) {
    const all = ["apiserver", "--listen", "127.0.0.1:0", "--enable-faults", "--kubeconfig-out", this.kubeconfig, ...flags];
    const child = spawn(binary, all, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    let log = "";
    child.stderr.on("data", (chunk) => (log = (log + chunk).slice(-65_536)));
    this.#exited = new Promise((resolve) => {
      child.once("close", () => resolve("it ended"));
      child.once("error", (error) => resolve(error.message));
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT);
    const problem = await Promise.race([once(child.stdout, "data").then(() => ""), this.#exited]);
    clearTimeout(timer);
    child.stdout.resume();
    if (problem) throw new Error(`cannot start the API server: ${problem}\n${log}`);
    const config = JSON.parse(await readFile(this.kubeconfig, "utf8"));
    const { server, "certificate-authority-data": authority } = config.clusters[0].cluster;
    this.url = server;
    this.#authority = authority && Buffer.from(authority, "base64");
    this.#token = config.users[0].user.token;
    await this.call("GET", "/readyz");
  }

  /** Injects a fault. The members are those of POST /debug/faults, such as verb, resource, code and count. */
  async inject(fault) {
    await this.call("POST", "/debug/faults", fault);
  }

  /** Removes all faults. Frozen watches continue. */
  async clearFaults() {
    await this.call("DELETE", "/debug/faults");
  }

  /** Saves all objects under a name: lower case letters, digits and hyphens. */
  async takeSnapshot(name) {
    await this.call("POST", "/debug/snapshot", { name });
  }

  /** Replaces all objects by those of a snapshot. Watches end with 410. */
  async restoreSnapshot(name) {
    await this.call("POST", `/debug/snapshot/${name}/restore`, {});
  }

  /** Sends a request with the administrator's credentials, and returns the answer as text. */
  async call(method, path, body) {
    const headers = { "content-type": "application/json" };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    const options = { method, headers, ca: this.#authority, timeout: TIMEOUT, agent: false };
    const client = this.url.startsWith("https:") ? https : http;
    const request = client.request(this.url + path, options);
    request.once("timeout", () => request.destroy(new Error(`${method} ${path}: no answer within ${TIMEOUT} ms`)));
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(request, "response");
    let text = "";
    for await (const chunk of response.setEncoding("utf8")) text += chunk;
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode}: ${text.trim()}`);
    return text;
  }

  /** Ends the server and removes its files. Does nothing when it is called again. */
  async stop() {
    const child = this.#process;
    this.#process = undefined;
    if (child) {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT);
      await this.#exited;
      clearTimeout(timer);
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Starts a server and waits until it is ready. The binary is by default $PILOTHOUSE_BINARY, or else pilothouse in $PATH.
 * `flags` are further flags of `pilothouse apiserver`.
 */
export async function start({ binary = process.env.PILOTHOUSE_BINARY || "pilothouse", flags = [] } = {}) {
  const server = new Server(await mkdtemp(join(tmpdir(), "pilothouse-")));
  try {
    await server.run(binary, flags);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}
