import { config as wit } from "#host";

let text;
let value;

/** Returns the sidecar's `config`, which `describe` received too. It is constant for the lifetime of an instance. */
export function config() {
  const present = wit.get();
  if (present !== text) {
    value = JSON.parse(present);
    text = present;
  }
  return value;
}
