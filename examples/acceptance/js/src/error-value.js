import {
  AlreadyExists,
  Conflict,
  Denied,
  Forbidden,
  Invalid,
  NotFound,
  OtherStatus,
  TooManyRequests,
  Unavailable,
} from "@pilothouse/sdk";

/** Converts an error of the client to a value. Other errors are rethrown. */
export function errorValue(error) {
  if (error instanceof NotFound) return "not-found";
  if (error instanceof AlreadyExists) return "already-exists";
  if (error instanceof Conflict) return "conflict";
  if (error instanceof Invalid) return `invalid:${error.causes[0].field}`;
  if (error instanceof Forbidden) return "forbidden";
  if (error instanceof Denied) return `denied:${error.rule.verbs[0]} ${error.rule.resources[0]}`;
  if (error instanceof TooManyRequests) return `too-many-requests:${error.retryAfter}`;
  if (error instanceof Unavailable) return "unavailable";
  if (error instanceof OtherStatus) return `other:${error.code}`;
  throw error;
}
