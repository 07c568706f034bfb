// Errors of the API server as classes, and the two that an author throws.

/** Why a request to the API server failed. Each kind of failure is a class of its own. */
export class ApiError extends Error {
  constructor(message) {
    super(message);
    this.name = this.constructor.name;
  }
}

/** 404: there is no such object, or no such kind. */
export class NotFound extends ApiError {}

/** 409 on create: the name is taken. */
export class AlreadyExists extends ApiError {}

/** 409: the object changed since it was read, or a server-side apply met another field manager. */
export class Conflict extends ApiError {
  constructor(message, resourceVersion) {
    super(message);
    /** The object's present version; undefined when neither the server nor the cache knows it. */
    this.resourceVersion = resourceVersion;
  }
}

/** 422: the server refused fields. */
export class Invalid extends ApiError {
  constructor(causes) {
    super(causes.map(({ field, message }) => (field === "" ? message : `${field}: ${message}`)).join("; "));
    /** `field`, `reason` and `message` of each. */
    this.causes = causes;
  }
}

/** 403: refused by RBAC or admission on the server. */
export class Forbidden extends ApiError {}

/** Refused by the host, nothing was sent: the descriptor's `writes` or the operator's grant lacks the rule. */
export class Denied extends ApiError {
  constructor(rule) {
    super(`the descriptor's writes and the grant need ${describeRule(rule)}`);
    /** What a grant would have to contain. */
    this.rule = rule;
  }
}

/** 429, or the host's own limit. */
export class TooManyRequests extends ApiError {
  constructor(retryAfter) {
    super(`try again in ${retryAfter} ms`);
    /** How long to wait, in milliseconds. */
    this.retryAfter = retryAfter;
  }
}

/** No answer; a write may nevertheless have happened. */
export class Unavailable extends ApiError {}

/** Any other status. */
export class OtherStatus extends ApiError {
  constructor({ code, reason, message }) {
    super(`${code} ${reason}: ${message}`);
    /** The HTTP status. */
    this.code = code;
    /** The `reason` of the server's Status; "" without one. */
    this.reason = reason;
  }
}

/** Throw it to have the object tried again with backoff: as any error, but without a stack in the log. */
export class Retry extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "Retry";
  }
}

/** Throw it when trying again cannot help: nothing is tried before the object changes. */
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

/** Makes a request; what the host answers as an error is thrown as its class. */
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
  const place = namespaces.length === 0 ? "" : ` in ${namespaces.join(", ")}`;
  return `${verbs.join(", ")} on ${resources.join(", ")} of ${groups}${place}`;
}
