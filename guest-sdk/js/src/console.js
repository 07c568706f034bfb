// A console, which QuickJS lacks but libraries expect. Its lines go to the plugin's log.

import * as log from "./log.js";

function line(write) {
  return (...values) => write(values.map(log.text).join(" "));
}

globalThis.console ??= {
  debug: line(log.debug),
  trace: line(log.debug),
  log: line(log.info),
  info: line(log.info),
  warn: line(log.warn),
  error: line(log.error),
};
