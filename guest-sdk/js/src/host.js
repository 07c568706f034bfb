// The host in a component. Only builds for Pilothouse use this file (the condition `pilothouse` of `#host`).
import cache from "pilothouse:controller/cache@0.1.1";
import client from "pilothouse:controller/client@0.1.1";
import config from "pilothouse:controller/config@0.1.1";
import events from "pilothouse:controller/events@0.1.1";
import log from "pilothouse:controller/log@0.1.1";
import metrics from "pilothouse:controller/metrics@0.1.1";
import queue from "pilothouse:controller/queue@0.1.1";
import random from "wasi:random/random@0.2.0";

export { cache, client, config, events, log, metrics, queue, random };
