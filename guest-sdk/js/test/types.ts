// Checks the type declarations; compiled, not run.

import type { Deployment } from "kubernetes-types/apps/v1";
import type { ConfigMap } from "kubernetes-types/core/v1";

import { client, conditions, Conflict, definePlugin, finalizer, log, owner, type Condition, type Descriptor } from "@pilothouse/sdk";
import { fakeHost } from "@pilothouse/sdk/testing";

interface Foo {
  apiVersion: "example.com/v1";
  kind: "Foo";
  metadata: { name: string; namespace: string };
  spec: { replicas?: number };
  status?: { conditions?: Condition[] };
}

const describe: Descriptor = {
  name: "typed",
  version: "0.1.0",
  watches: [
    { name: "foos", apiVersion: "example.com/v1", kind: "Foo", trigger: "self" },
    { name: "maps", apiVersion: "v1", kind: "ConfigMap", trigger: { owner: { watch: "foos" } }, indexes: [{ name: "byWord", computed: true }] },
    // @ts-expect-error a trigger has one of the contract's shapes
    { name: "bad", apiVersion: "v1", kind: "Pod", trigger: { parent: "foos" } },
  ],
};

const plugin = definePlugin({
  describe,
  reconcile(ctx, request) {
    const foo = ctx.cache<Foo>("foos").get(request.key)?.json();
    if (foo === undefined) return;
    const replicas: number = foo.spec.replicas ?? 1;
    const present = ctx.cache<Deployment>("deployments").get(request.key.sibling("web"));
    const { object, change } = client.createOrUpdate<Deployment>(
      present,
      () => ({ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", ownerReferences: [owner.controllerOwnerRef(foo)] } }),
      (deployment) => {
        deployment.spec!.replicas = replicas;
        // @ts-expect-error no such member
        deployment.spec!.replica = replicas;
      },
    );
    log.info("synced", { change, available: object.status?.availableReplicas });
    foo.status ??= {};
    foo.status.conditions ??= [];
    if (conditions.set(foo.status.conditions, { type: "Ready", status: true, reason: "Synced" })) client.updateStatus(foo);
    try {
      client.delete({ apiVersion: "v1", kind: "ConfigMap" }, request.key, { propagation: "foreground" });
    } catch (error) {
      if (error instanceof Conflict) log.warn(error.resourceVersion ?? "unknown");
      else throw error;
    }
    finalizer.run(foo, "example.com/cleanup", { apply: () => undefined, cleanup: () => undefined });
    for (const map of ctx.cache<ConfigMap>("maps").list({ labelSelector: "app=web" })) ctx.events.normal(map, "Seen", "See", map.key.name);
    return { requeueAfter: 30_000 };
  },
  observe(_, notifications) {
    for (const notification of notifications) {
      if (notification.change === "updated") log.debug(notification.field<string>("/data/value"));
    }
  },
  indexes: {
    byWord: (object) => object.text("/data/words")?.split(" "),
    byNodeAndPort: (object) => {
      const [node, phase] = object.texts("/spec/nodeName", "/status/phase");
      const [port] = object.fields<[number]>("/spec/port");
      // @ts-expect-error nothing may be there
      node.length;
      return phase === "Running" ? [`${node} ${port?.toFixed()}`] : [];
    },
  },
});

// @ts-expect-error a delay must be { requeueAfter }
definePlugin({ describe, reconcile: () => 30 });
// @ts-expect-error reconcile must not be async
definePlugin({ describe, reconcile: async () => ({ requeueAfter: 1 }) });

fakeHost(plugin, { config: { a: 1 } }).reconcile("foos", { name: "web" }).message?.trim();
