import type { Rule } from "./descriptor.js";

/** Why a request to the API server failed. Each kind of failure is a class of its own. */
export class ApiError extends Error {}

/** 404: there is no such object, or no such kind. */
export class NotFound extends ApiError {}

/** 409 on create: the name is taken. */
export class AlreadyExists extends ApiError {}

/** 409: the object changed since it was read, or a server-side apply met another field manager. */
export class Conflict extends ApiError {
  /** The object's present version; undefined when neither the server nor the cache knows it. */
  readonly resourceVersion: string | undefined;
}

/** 422: the server refused fields. */
export class Invalid extends ApiError {
  readonly causes: { field: string; reason: string; message: string }[];
}

/** 403: refused by RBAC or admission on the server. */
export class Forbidden extends ApiError {}

/** Refused by the host, nothing was sent. */
export class Denied extends ApiError {
  /** What a grant would have to contain. */
  readonly rule: Required<Rule>;
}

/** 429, or the host's own limit. */
export class TooManyRequests extends ApiError {
  /** How long to wait, in milliseconds. */
  readonly retryAfter: number;
}

/** No answer; a write may nevertheless have happened. */
export class Unavailable extends ApiError {}

/** Any other status. */
export class OtherStatus extends ApiError {
  /** The HTTP status. */
  readonly code: number;
  /** The `reason` of the server's Status; "" without one. */
  readonly reason: string;
}

/** Throw it to have the object tried again with backoff: as any error, but without a stack in the log. */
export class Retry extends Error {}

/** Throw it when trying again cannot help: nothing is tried before the object changes. */
export class Terminal extends Error {}
