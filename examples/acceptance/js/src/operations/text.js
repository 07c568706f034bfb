/** Keys of objects, separated by one space. */
export function keys(objects) {
  return objects.map(({ key }) => key).join(" ");
}

/** All pages of keys, from a function that reads the page after a cursor. */
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
