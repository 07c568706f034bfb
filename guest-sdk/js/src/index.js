export * as client from "./client.js";
export * as conditions from "./conditions.js";
export * as finalizer from "./finalizer.js";
export * as log from "./log.js";
export * as metrics from "./metrics.js";
export * as owner from "./owner.js";

export { config } from "./config.js";
export {
  AlreadyExists,
  ApiError,
  Conflict,
  Denied,
  Forbidden,
  Invalid,
  NotFound,
  OtherStatus,
  Retry,
  Terminal,
  TooManyRequests,
  Unavailable,
} from "./errors.js";
export { ObjectKey } from "./key.js";
export { KubeObject } from "./object.js";
export { definePlugin } from "./plugin.js";
