// Requests to the API server.

import { RESULT, Text, textAt, textsAt } from "./abi";
import { KubeObject, Page, pageAt } from "./object";
import { Key, Kind } from "./types";

@external("pilothouse", "client_get")
declare function hostGet(apiVersion: usize, apiVersionLength: usize, kind: usize, kindLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize, subresource: usize, subresourceLength: usize, result: usize): void;
@external("pilothouse", "client_list")
declare function hostList(apiVersion: usize, apiVersionLength: usize, kind: usize, kindLength: usize, namespace: usize, namespaceLength: usize, labels: usize, labelsLength: usize, fields: usize, fieldsLength: usize, limit: u32, cursor: usize, cursorLength: usize, result: usize): void;
@external("pilothouse", "client_create")
declare function hostCreate(manifest: usize, manifestLength: usize, subresource: usize, subresourceLength: usize, result: usize): void;
@external("pilothouse", "client_update")
declare function hostUpdate(manifest: usize, manifestLength: usize, subresource: usize, subresourceLength: usize, result: usize): void;
@external("pilothouse", "client_patch")
declare function hostPatch(apiVersion: usize, apiVersionLength: usize, kind: usize, kindLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize, type: i32, manager: usize, managerLength: usize, force: bool, body: usize, bodyLength: usize, subresource: usize, subresourceLength: usize, result: usize): void;
@external("pilothouse", "client_delete")
declare function hostDelete(apiVersion: usize, apiVersionLength: usize, kind: usize, kindLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize, propagation: i32, uid: usize, uidLength: usize, resourceVersion: usize, resourceVersionLength: usize, result: usize): void;

/** Why a request failed, in the order of `api-error` in types.wit. */
export enum ErrorCode {
  NotFound,
  AlreadyExists,
  Conflict,
  Invalid,
  Forbidden,
  Denied,
  TooManyRequests,
  Unavailable,
  Other,
}

/** The failure of a request. */
@final
export class ApiError {
  constructor(
    readonly code: ErrorCode,
    /** For people; "" if the server sent none. */
    readonly message: string,
  ) {}

  /** The first rejected field of an invalid object. */
  field: string = "";
  /** The first verb and resource of the rule that is missing, if the request was denied by the host. */
  verb: string = "";
  resource: string = "";
  /** The time to wait in milliseconds, after too many requests. */
  retryAfter: u32 = 0;
  /** The HTTP status of another error. */
  status: u16 = 0;

  toString(): string {
    const names = ["not found", "already exists", "conflict", "invalid", "forbidden", "denied", "too many requests", "unavailable", "error"];
    const detail = this.code == ErrorCode.Denied ? this.verb + " " + this.resource : this.field.length ? this.field : this.message;
    return names[this.code] + ": " + detail;
  }
}

/** The result of a request: the object as stored, or the error. Both are null after a deletion that succeeded. */
@final
export class Response {
  constructor(
    readonly object: KubeObject | null,
    readonly error: ApiError | null,
  ) {}
}

/** The result of a list request. */
@final
export class ListResponse {
  constructor(
    readonly page: Page | null,
    readonly error: ApiError | null,
  ) {}
}

/** Returns the error whose case is stored here, followed by its contents. */
function errorAt(address: usize): ApiError {
  const code = <ErrorCode>load<u8>(address);
  const contents = address + 4;
  switch (code) {
    case ErrorCode.Invalid: {
      const causes = load<usize>(contents);
      const error = new ApiError(code, load<i32>(contents, 4) ? textAt(causes + 16) : "");
      if (load<i32>(contents, 4)) error.field = textAt(causes);
      return error;
    }
    case ErrorCode.Denied: {
      const error = new ApiError(code, "");
      const resources = textsAt(contents + 8), verbs = textsAt(contents + 16);
      error.resource = resources.length ? resources[0] : "";
      error.verb = verbs.length ? verbs[0] : "";
      return error;
    }
    case ErrorCode.TooManyRequests: {
      const error = new ApiError(code, "");
      error.retryAfter = load<u32>(contents);
      return error;
    }
    case ErrorCode.Other: {
      const error = new ApiError(code, textAt(contents + 12));
      error.status = load<u16>(contents);
      return error;
    }
    default:
      return new ApiError(code, textAt(contents));
  }
}

function response(): Response {
  if (load<u8>(RESULT)) return new Response(null, errorAt(RESULT + 4));
  return new Response(new KubeObject(load<i32>(RESULT, 4)), null);
}

export enum PatchType {
  Json,
  Merge,
  Strategic,
  Apply,
  /** A server-side apply that takes over fields of other managers. */
  ApplyForced,
}

export enum Propagation {
  Background,
  Foreground,
  Orphan,
}

export function get(kind: Kind, key: Key, subresource: string = ""): Response {
  const apiVersion = new Text(kind.apiVersion), name = new Text(kind.kind), part = new Text(subresource);
  const namespace = new Text(key.namespace), object = new Text(key.name);
  hostGet(apiVersion.pointer, apiVersion.length, name.pointer, name.length, namespace.pointer, namespace.length,
    object.pointer, object.length, part.pointer, part.length, RESULT);
  return response();
}

export function list(kind: Kind, namespace: string, labelSelector: string, fieldSelector: string, limit: u32, cursor: string): ListResponse {
  const apiVersion = new Text(kind.apiVersion), name = new Text(kind.kind), space = new Text(namespace);
  const labels = new Text(labelSelector), fields = new Text(fieldSelector), next = new Text(cursor);
  hostList(apiVersion.pointer, apiVersion.length, name.pointer, name.length, space.pointer, space.length,
    labels.pointer, labels.length, fields.pointer, fields.length, limit, next.pointer, next.length, RESULT);
  if (load<u8>(RESULT)) return new ListResponse(null, errorAt(RESULT + 4));
  return new ListResponse(pageAt(RESULT + 4), null);
}

/** Creates an object from its JSON. */
export function create(manifest: string, subresource: string = ""): Response {
  const body = new Text(manifest), part = new Text(subresource);
  hostCreate(body.pointer, body.length, part.pointer, part.length, RESULT);
  return response();
}

/** Updates an object. The manifest must have the `metadata.resourceVersion` that was read. */
export function update(manifest: string, subresource: string = ""): Response {
  const body = new Text(manifest), part = new Text(subresource);
  hostUpdate(body.pointer, body.length, part.pointer, part.length, RESULT);
  return response();
}

export function patch(kind: Kind, key: Key, type: PatchType, body: string, subresource: string = ""): Response {
  const apiVersion = new Text(kind.apiVersion), name = new Text(kind.kind), part = new Text(subresource);
  const namespace = new Text(key.namespace), object = new Text(key.name), text = new Text(body), manager = new Text("");
  const forced = type == PatchType.ApplyForced;
  hostPatch(apiVersion.pointer, apiVersion.length, name.pointer, name.length, namespace.pointer, namespace.length,
    object.pointer, object.length, forced ? PatchType.Apply : type, manager.pointer, manager.length, forced,
    text.pointer, text.length, part.pointer, part.length, RESULT);
  return response();
}

export function remove(kind: Kind, key: Key, propagation: Propagation, uid: string = "", resourceVersion: string = ""): Response {
  const apiVersion = new Text(kind.apiVersion), name = new Text(kind.kind), version = new Text(resourceVersion);
  const namespace = new Text(key.namespace), object = new Text(key.name), identity = new Text(uid);
  hostDelete(apiVersion.pointer, apiVersion.length, name.pointer, name.length, namespace.pointer, namespace.length,
    object.pointer, object.length, propagation, identity.pointer, identity.length, version.pointer, version.length, RESULT);
  return new Response(null, load<u8>(RESULT) ? errorAt(RESULT + 4) : null);
}
