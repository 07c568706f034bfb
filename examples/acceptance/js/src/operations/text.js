/** Joins the keys of objects with spaces. */
export function keys(objects) {
  return objects.map(({ key }) => key).join(" ");
}

/** Returns all pages of keys, given a function that reads the page after a cursor. */
export function pages(read) {
  const found = [];
  let cursor;
  do {
    const { items, next } = read(cursor);
    found.push(keys(items));
    cursor = next;
  } while (cursor !== undefined);
  return found.join(" | ");
}
