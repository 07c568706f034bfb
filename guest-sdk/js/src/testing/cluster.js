// The fake API server. `guest-sdk/testing/cases.json` specifies it. It follows kube-apiserver, without schemas, defaults, admission and the
// garbage collector.

import { same } from "../json.js";
import { ObjectKey } from "../key.js";
import { kindOf } from "./kinds.js";
import { at, drop, Failed, leaves, Malformed, merge, patched, put } from "./patches.js";
import { compareKeys, fieldSelector, InvalidSelector, labelSelector } from "./select.js";

/** The time of every creation and deletion. */
const NOW = "2026-01-01T00:00:00Z";
/** The field manager of the test's own writes. */
const ANOTHER_CLIENT = "another client";
/** The metadata that a client may leave out of an update, and cannot change. */
const SERVER_FIELDS = [
  "uid",
  "creationTimestamp",
  "generation",
  "resourceVersion",
  "generateName",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
];
/** What has no field manager. */
const UNTRACKED = new Set(["/apiVersion", "/kind", "/metadata"]);
for (const field of ["name", "namespace", "managedFields", ...SERVER_FIELDS]) UNTRACKED.add(`/metadata/${field}`);

/** Returns an error as the contract's imports throw it. */
export function refusal(tag, val) {
  return Object.assign(new Error(`${tag} (see error.payload)`), { payload: { tag, val } });
}

export function invalid(field, message, reason = "FieldValueInvalid") {
  return refusal("invalid", [{ field, reason, message }]);
}

function conflict(message, resourceVersion) {
  return refusal("conflict", { message, resourceVersion });
}

function other(code, reason, message) {
  return refusal("other", { code, reason, message });
}

/** The objects by kind and key, and the owners of their fields. */
export class Cluster {
  /** The CRDs of the plugin. */
  crds = [];
  #objects = new Map();
  /** By object and JSON pointer, the field managers of each value: "NAME apply" for applies and "NAME" for other writes. */
  #owners = new Map();
  #version = 0;

  kind(type) {
    return kindOf(this.crds, type);
  }

  find(type, key) {
    return this.#objects.get(slot(type, key));
  }

  /** Like `find`, but throws `not-found`. */
  expect(type, key, subresource = "") {
    const { group, plural, hasStatus } = this.kind(type);
    const found = this.find(type, key);
    if (found !== undefined && (subresource !== "status" || hasStatus)) return found;
    throw refusal("not-found", `${group === "" ? plural : `${plural}.${group}`} "${ObjectKey.of(key).name}" not found`);
  }

  /** Returns objects, ordered by namespace, then name. */
  select({ apiVersion, kind }, { namespace = "", labels = "", fields = "" } = {}) {
    const [hasLabels, hasFields] = [labelSelector(labels), fieldSelector(fields)];
    const isSelected = (object) =>
      object.apiVersion === apiVersion &&
      object.kind === kind &&
      (namespace === "" || object.metadata.namespace === namespace) &&
      hasLabels(object) &&
      hasFields(object);
    return [...this.#objects.values()].filter(isSelected).sort((a, b) => compareKeys(ObjectKey.of(a), ObjectKey.of(b)));
  }

  /** Like `select`, for a request. */
  list(type, options) {
    try {
      return this.select(type, options);
    } catch (error) {
      if (error instanceof InvalidSelector) throw other(400, "BadRequest", error.message);
      throw error;
    }
  }

  /** Stores an object as another client's write. Keeps what the test gives, and adds the metadata that it leaves out. */
  put(object) {
    if (!object?.apiVersion || !object.kind) throw new TypeError("the object to put has no apiVersion and kind");
    if (!object.metadata?.name) throw new TypeError("the object to put has no metadata.name");
    const stored = structuredClone(object);
    const metadata = (stored.metadata = { ...stored.metadata });
    const present = this.find(stored, stored);
    metadata.uid ??= present?.metadata.uid ?? this.#newUid();
    metadata.creationTimestamp ??= present?.metadata.creationTimestamp ?? NOW;
    const kind = this.kind(stored);
    if (kind.hasGeneration) {
      if (present?.metadata.uid === metadata.uid) metadata.generation = generationOf(kind, present, stored);
      else metadata.generation ??= 1;
    }
    if (present?.metadata.deletionTimestamp !== undefined && isDeleted(stored)) return this.#remove(stored);
    return this.#store(stored, ANOTHER_CLIENT);
  }

  create(manifest, manager) {
    const { deletionTimestamp, deletionGracePeriodSeconds, ...metadata } = manifest.metadata ?? {};
    const created = { ...manifest, metadata };
    const kind = this.kind(created);
    if (metadata.resourceVersion) throw other(500, "", "resourceVersion should not be set on objects to be created");
    if (!metadata.name) {
      if (!metadata.generateName) throw invalid("metadata.name", "Required value: name or generateName is required", "FieldValueRequired");
      metadata.name = `${metadata.generateName}${String(this.#version + 1).padStart(5, "0")}`;
    }
    checkNewName(kind, metadata.name);
    if (this.find(created, created) !== undefined) throw refusal("already-exists", `${kind.plural} "${metadata.name}" already exists`);
    Object.assign(metadata, { uid: this.#newUid(), creationTimestamp: NOW });
    if (kind.hasGeneration) metadata.generation = 1;
    if (kind.hasStatus) delete created.status;
    return this.#store(created, manager);
  }

  update(manifest, subresource, manager) {
    const present = this.expect(manifest, manifest, subresource);
    const kind = this.kind(manifest);
    if (!manifest.metadata.resourceVersion && kind.needsVersion) {
      throw invalid("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update");
    }
    return this.#replace(kind, present, manifest, subresource, manager);
  }

  patch(type, key, form, body, subresource, manager) {
    const present = this.expect(type, key, subresource);
    const result = form === "json" ? jsonPatched(present, body) : merge(structuredClone(present), body);
    if (slot(result ?? {}, result?.metadata?.name === undefined ? { name: "" } : result) !== slot(type, key)) {
      throw other(400, "BadRequest", "a patch cannot change the type, the namespace or the name of an object");
    }
    return this.#replace(this.kind(type), present, result, subresource, manager);
  }

  apply(type, key, body, { subresource, manager, force }) {
    const { namespace, name } = ObjectKey.of(key);
    const config = { ...type, ...body, metadata: { ...body.metadata, name, ...(namespace === "" ? {} : { namespace }) } };
    if (slot(config, config) !== slot(type, key)) throw other(400, "BadRequest", "the applied manifest has another type");
    const kind = this.kind(type);
    const present = subresource === "" ? this.find(type, key) : this.expect(type, key, subresource);
    const isApplied = (pointer) => !kind.hasStatus || isStatus(pointer) === (subresource === "status");
    const wanted = new Map([...tracked(config)].filter(([pointer]) => isApplied(pointer)));
    if (present === undefined) {
      const created = this.create(config, manager);
      this.#owners.set(slot(type, key), new Map([...wanted.keys()].map((pointer) => [pointer, new Set([manager])])));
      return created;
    }
    const owners = new Map([...this.#owners.get(slot(type, key))].map(([pointer, managers]) => [pointer, new Set(managers)]));
    const changed = [...wanted].filter(([pointer, value]) => !same(at(present, pointer), value)).map(([pointer]) => pointer);
    const contested = changed.filter((pointer) => [...(owners.get(pointer) ?? [])].some((owner) => owner !== manager));
    if (contested.length > 0 && !force) {
      const message = `Apply failed with ${contested.length} conflicts with other field managers: ${contested.join(", ")}`;
      throw conflict(message, present.metadata.resourceVersion);
    }
    const result = structuredClone(present);
    for (const [pointer, managers] of owners) {
      if (wanted.has(pointer) || !isApplied(pointer) || !managers.delete(manager) || managers.size > 0) continue;
      owners.delete(pointer);
      drop(result, pointer);
    }
    for (const pointer of changed) put(result, pointer, structuredClone(wanted.get(pointer)));
    const stored = this.#replace(kind, present, result, subresource, manager);
    if (this.find(type, key) !== undefined) {
      for (const pointer of wanted.keys()) {
        owners.set(pointer, changed.includes(pointer) ? new Set([manager]) : (owners.get(pointer) ?? new Set()).add(manager));
      }
      this.#owners.set(slot(type, key), owners);
    }
    return stored;
  }

  delete(type, key, { uid = "", resourceVersion = "" } = {}) {
    const present = this.expect(type, key);
    const { metadata } = present;
    if ((uid !== "" && uid !== metadata.uid) || (resourceVersion !== "" && resourceVersion !== metadata.resourceVersion)) {
      throw conflict("Precondition failed: the object has another UID or resource version", metadata.resourceVersion);
    }
    if (!(metadata.finalizers?.length > 0)) {
      this.#remove(present);
    } else if (metadata.deletionTimestamp === undefined) {
      const deletion = { deletionTimestamp: NOW, deletionGracePeriodSeconds: 0 };
      if (metadata.generation > 0) deletion.generation = metadata.generation + 1;
      this.#store({ ...present, metadata: { ...metadata, ...deletion } }, ANOTHER_CLIENT);
    }
  }

  /** Replaces an object, or its status, by what a client proposes. */
  #replace(kind, present, proposed, subresource, manager) {
    const [before, after] = [present.metadata, proposed.metadata];
    if (after.resourceVersion && after.resourceVersion !== before.resourceVersion) {
      const message = "the object has been modified; please apply your changes to the latest version and try again";
      throw conflict(message, before.resourceVersion);
    }
    if (after.uid && after.uid !== before.uid) {
      throw conflict(`Precondition failed: UID in precondition: ${after.uid}, UID in object meta: ${before.uid}`, before.resourceVersion);
    }
    const added = (after.finalizers ?? []).filter((finalizer) => !before.finalizers?.includes(finalizer));
    if (before.deletionTimestamp !== undefined && added.length > 0 && subresource === "") {
      const message = "Forbidden: no new finalizers can be added if the object is being deleted";
      throw invalid("metadata.finalizers", message, "FieldValueForbidden");
    }
    const result = structuredClone(subresource === "" ? proposed : present);
    if (subresource !== "" || kind.hasStatus) copyMember(subresource === "" ? present : proposed, result, "status");
    for (const field of SERVER_FIELDS) copyMember(before, result.metadata, field);
    if (subresource === "" && kind.hasGeneration) result.metadata.generation = generationOf(kind, present, result);
    if (same(result, present)) return present;
    if (before.deletionTimestamp !== undefined && isDeleted(result)) return this.#remove(result);
    return this.#store(result, manager);
  }

  #newUid() {
    return `uid-${this.#version + 1}`;
  }

  #store(object, manager) {
    this.#version += 1;
    object.metadata.resourceVersion = `${this.#version}`;
    const id = slot(object, object);
    const present = this.#objects.get(id);
    const before = present === undefined ? new Map() : tracked(present);
    const owners = this.#owners.get(id) ?? new Map();
    const ownersOf = ([pointer, value]) => {
      const isKept = before.has(pointer) && same(before.get(pointer), value);
      return [pointer, isKept ? (owners.get(pointer) ?? new Set()) : new Set([manager])];
    };
    this.#owners.set(id, new Map([...tracked(object)].map(ownersOf)));
    this.#objects.set(id, object);
    return object;
  }

  #remove(object) {
    this.#version += 1;
    this.#objects.delete(slot(object, object));
    this.#owners.delete(slot(object, object));
    return { ...object, metadata: { ...object.metadata, resourceVersion: `${this.#version}` } };
  }
}

function slot({ apiVersion, kind }, key) {
  return `${apiVersion} ${kind} ${ObjectKey.of(key)}`;
}

/** Returns whether nothing delays the removal of an object that is being deleted. */
function isDeleted({ metadata: { finalizers = [], deletionGracePeriodSeconds = 0 } }) {
  return finalizers.length === 0 && deletionGracePeriodSeconds === 0;
}

function checkNewName({ group }, name) {
  const isSubdomain = name.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name);
  if (isSubdomain || group === "rbac.authorization.k8s.io") return;
  const rule = "a lowercase RFC 1123 subdomain consists of lower case letters, digits, '-' and '.'";
  throw invalid("metadata.name", `Invalid value: ${JSON.stringify(name)}: ${rule}`);
}

/** Returns the generation, which counts the changes of everything but the metadata and the status. */
function generationOf(kind, before, after) {
  const ignored = kind.hasStatus ? ["metadata", "status"] : ["metadata"];
  const members = new Set([...Object.keys(before), ...Object.keys(after)]);
  const isChanged = [...members].some((member) => !ignored.includes(member) && !same(before[member], after[member]));
  return (before.metadata.generation ?? 0) + Number(isChanged);
}

function copyMember(source, target, name) {
  if (source[name] === undefined) delete target[name];
  else target[name] = structuredClone(source[name]);
}

function isStatus(pointer) {
  return pointer === "/status" || pointer.startsWith("/status/");
}

/** Returns the values that have field managers, by pointer. */
function tracked(object) {
  return new Map([...leaves(object)].filter(([pointer]) => !UNTRACKED.has(pointer)));
}

function jsonPatched(object, operations) {
  try {
    return patched(object, operations);
  } catch (error) {
    if (error instanceof Malformed) throw other(400, "BadRequest", error.message);
    if (error instanceof Failed) throw invalid("", error.message, "Invalid");
    throw error;
  }
}
