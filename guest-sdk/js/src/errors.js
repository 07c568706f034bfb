// The errors of the API server as classes, and the two errors that a plugin throws.

/** Why a request to the API server failed. Each reason is a subclass. */
export class ApiError extends Error {
  constructor(message) {
    super(message);
    this.name = this.constructor.name;
  }
}

/** 404: the object, or its kind, does not exist. */
export class NotFound extends ApiError {}

/** 409: the object to create already exists. */
export class AlreadyExists extends ApiError {}

/** 409: the object changed since it was read, or another field manager owns a field of a server-side apply. */
export class Conflict extends ApiError {
  constructor(message, resourceVersion) {
    super(message);
    /** The object's current resource version; undefined when neither the server's answer nor the cache has it. */
    this.resourceVersion = resourceVersion;
  }
}

/** 422: the server rejected fields. */
export class Invalid extends ApiError {
  constructor(causes) {
    super(causes.map(({ field, message }) => (field === "" ? message : `${field}: ${message}`)).join("; "));
    /** The rejected fields, each with `field`, `reason` and `message`. */
    this.causes = causes;
  }
}

/** 403: rejected by RBAC or by admission on the server. */
export class Forbidden extends ApiError {}

/** Rejected by the host; nothing was sent. The descriptor's `writes` or the operator's grant lacks the rule. */
export class Denied extends ApiError {
  constructor(rule) {
    super(`the descriptor's writes and the grant need ${describeRule(rule)}`);
    /** The missing rule. */
    this.rule = rule;
  }
}

/** 429, or the host's own rate limit. */
export class TooManyRequests extends ApiError {
  constructor(retryAfter) {
    super(`try again in ${retryAfter} ms`);
    /** The time to wait, in milliseconds. */
    this.retryAfter = retryAfter;
  }
}

/** There was no usable answer: connection refused, timeout, 503 or 504. A write may have been applied nevertheless. */
export class Unavailable extends ApiError {}

/** Any other status. */
export class OtherStatus extends ApiError {
  constructor({ code, reason, message }) {
    super(`${code} ${reason}: ${message}`);
    /** The HTTP status. */
    this.code = code;
    /** The `reason` of the server's Status object; "" when it has none. */
    this.reason = reason;
  }
}

/** Throw this to have the object retried with backoff. Any other error does the same, but its stack is logged. */
export class Retry extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "Retry";
  }
}

/** Throw this when a retry cannot succeed before the object changes. */
export class Terminal extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "Terminal";
  }
}

const CLASSES = {
  "not-found": (message) => new NotFound(message),
  "already-exists": (message) => new AlreadyExists(message),
  conflict: ({ message, resourceVersion }) => new Conflict(message, resourceVersion || undefined),
  invalid: (causes) => new Invalid(causes),
  forbidden: (message) => new Forbidden(message),
  denied: (rule) => new Denied(rule),
  "too-many-requests": (retryAfter) => new TooManyRequests(retryAfter),
  unavailable: (message) => new Unavailable(message),
  other: (status) => new OtherStatus(status),
};

/** Sends a request. An error of the contract is thrown as the class for it. */
export function asking(request) {
  try {
    return request();
  } catch (error) {
    const failure = error?.payload;
    const make = CLASSES[failure?.tag];
    throw make === undefined ? error : make(failure.val);
  }
}

function describeRule({ apiGroups, resources, verbs, namespaces }) {
  const groups = apiGroups.map((group) => (group === "" ? "the core group" : group)).join(", ");
  const suffix = namespaces.length === 0 ? "" : ` in ${namespaces.join(", ")}`;
  return `${verbs.join(", ")} on ${resources.join(", ")} of ${groups}${suffix}`;
}
