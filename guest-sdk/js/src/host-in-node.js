// The host in Node, where there is none. Tests install a fake host (`@pilothouse/sdk/testing`).

let installed;

/** Installs a fake host, for tests. */
export function install(host) {
  installed = host;
}

function stub(name) {
  return new Proxy(
    {},
    {
      get(_, member) {
        if (installed === undefined) {
          throw new Error(
            `${name}.${String(member)}: there is no host in node; make one with fakeHost() of @pilothouse/sdk/testing`,
          );
        }
        return installed[name][member];
      },
    },
  );
}

export const cache = stub("cache");
export const client = stub("client");
export const config = stub("config");
export const events = stub("events");
export const metrics = stub("metrics");
export const queue = stub("queue");

/** The random numbers of Node. */
export const random = {
  getRandomBytes: (count) => globalThis.crypto.getRandomValues(new Uint8Array(count)),
};

/** Logging works without a host too, so that every function of a plugin can be tested by itself. */
export const log = {
  log(level, message, fields) {
    if (installed !== undefined) return installed.log.log(level, message, fields);
    const text = fields.map(({ key, value }) => ` ${key}=${value}`).join("");
    process.stderr.write(`${level} ${message}${text}\n`);
  },
};
