// The contract's numbers. QuickJS passes a wrong one on without a word: it is caught here, where its origin is known.

/** The longest delay that the contract knows: 2³¹ − 1 milliseconds. */
const LONGEST_DELAY = 2147483647;

/** A delay, rounded up to whole milliseconds and bounded. */
export function witDelay(milliseconds) {
  if (typeof milliseconds !== "number" || !(milliseconds >= 0)) {
    throw new RangeError(`a delay is a number of milliseconds, 0 or more, not ${milliseconds}`);
  }
  return Math.min(Math.ceil(milliseconds), LONGEST_DELAY);
}

/** How many objects a page may have; 0 leaves it to the host. */
export function witLimit(limit) {
  if (!Number.isInteger(limit) || limit < 0 || limit > LONGEST_DELAY) {
    throw new RangeError(`a limit is a whole number, 0 or more, not ${limit}`);
  }
  return limit;
}

/** A value of a metric. */
export function witNumber(value) {
  if (typeof value !== "number") throw new TypeError(`a metric's value is a number, not ${value}`);
  return value;
}
