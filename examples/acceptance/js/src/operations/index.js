import { client } from "./client.js";
import { cache } from "./cache.js";
import { effects } from "./effects.js";
import { outcomes } from "./outcomes.js";

/** The operations by name. Each receives the call, the script's arguments, and the function `result`, which logs its value. */
export const operations = new Map(Object.entries({ ...outcomes, ...cache, ...client, ...effects }));
