// Checks of numbers for the contract. QuickJS converts invalid numbers silently, so they are rejected here, where the cause is known.

/** The longest delay of the contract: 2³¹ − 1 milliseconds. */
const LONGEST_DELAY = 2147483647;

/** Rounds a delay up to whole milliseconds and limits it to the maximum. */
export function witDelay(milliseconds) {
  if (typeof milliseconds !== "number" || !(milliseconds >= 0)) {
    throw new RangeError(`a delay must be a number of milliseconds, 0 or more, not ${milliseconds}`);
  }
  return Math.min(Math.ceil(milliseconds), LONGEST_DELAY);
}

/** Checks the maximum number of objects in a page; 0 for the host's default. */
export function witLimit(limit) {
  if (!Number.isInteger(limit) || limit < 0 || limit > LONGEST_DELAY) {
    throw new RangeError(`a limit must be a whole number, 0 or more, not ${limit}`);
  }
  return limit;
}

/** Checks the value of a metric. */
export function witNumber(value) {
  if (typeof value !== "number") throw new TypeError(`a metric's value must be a number, not ${value}`);
  return value;
}
