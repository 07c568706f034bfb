import { config as wit } from "#host";

let text;
let value;

/** The sidecar's `config`: what `describe` was given. It stays the same while an instance lives. */
export function config() {
  const present = wit.get();
  if (present !== text) {
    value = JSON.parse(present);
    text = present;
  }
  return value;
}
