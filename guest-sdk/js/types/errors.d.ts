import type { Rule } from "./descriptor.js";

/** Why a request to the API server failed. Each reason is a subclass. */
export class ApiError extends Error {}

/** 404: the object, or its kind, does not exist. */
export class NotFound extends ApiError {}

/** 409: the object to create already exists. */
export class AlreadyExists extends ApiError {}

/** 409: the object changed since it was read, or another field manager owns a field of a server-side apply. */
export class Conflict extends ApiError {
  /** The object's current resource version; undefined when neither the server's answer nor the cache has it. */
  readonly resourceVersion: string | undefined;
}

/** 422: the server rejected fields. */
export class Invalid extends ApiError {
  readonly causes: { field: string; reason: string; message: string }[];
}

/** 403: rejected by RBAC or by admission on the server. */
export class Forbidden extends ApiError {}

/** Rejected by the host; nothing was sent. The descriptor's `writes` or the operator's grant lacks the rule. */
export class Denied extends ApiError {
  /** The missing rule. */
  readonly rule: Required<Rule>;
}

/** 429. The host's own rate limit is no error: the request waits. */
export class TooManyRequests extends ApiError {
  /** The time to wait, in milliseconds. */
  readonly retryAfter: number;
}

/** There was no usable answer: connection refused, timeout, 502, 503 or 504. A write may have been applied nevertheless. */
export class Unavailable extends ApiError {}

/** Any other status. */
export class OtherStatus extends ApiError {
  /** The HTTP status. */
  readonly code: number;
  /** The `reason` of the server's Status object; "" when it has none. */
  readonly reason: string;
}

/** Throw this to have the object retried with backoff. Any other error does the same, but its stack is logged. */
export class Retry extends Error {}

/** Throw this when a retry cannot succeed before the object changes. */
export class Terminal extends Error {}
