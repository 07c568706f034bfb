// What the cases in JavaScript share.

import { client, NotFound } from "@pilothouse/sdk";

/** The API group of the catalogue's custom resources. */
export const GROUP = "catalogue.pilothouse.dev";

/** The API version of the catalogue's custom resources. */
export const API_VERSION = `${GROUP}/v1`;

/** Returns the descriptors of both twins of a case. */
export function describeTwins(name, descriptor) {
  const describe = (twin) => ({ name: `${name}-${twin}`, version: "0.1.0", ...descriptor });
  return { wrong: describe("wrong"), right: describe("right") };
}

/** Returns the object as the server has it now, or undefined if it does not exist. */
export function getLive(type, key) {
  try {
    return client.get(type, key);
  } catch (error) {
    if (error instanceof NotFound) return undefined;
    throw error;
  }
}

/** Adds a finalizer to an object, or removes it, unless the object has changed since it was read. Finalizers of others stay. */
export function setFinalizer(object, finalizer, isHeld) {
  const present = object.field("/metadata/finalizers") ?? [];
  if (present.includes(finalizer) === isHeld) return;
  const others = present.filter((other) => other !== finalizer);
  const finalizers = isHeld ? [...others, finalizer] : others;
  client.patch(object, object.key, { metadata: { finalizers, resourceVersion: object.resourceVersion } });
}
