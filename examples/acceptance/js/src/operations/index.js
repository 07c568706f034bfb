import { client } from "./client.js";
import { cache } from "./cache.js";
import { effects } from "./effects.js";
import { outcomes } from "./outcomes.js";

/** The operations by name. Each is given the call, the script's arguments, and `result` to log its value with. */
export const operations = new Map(Object.entries({ ...outcomes, ...cache, ...client, ...effects }));
