// Texts and lists in the form that the canonical ABI defines, and the memory for them.

/** The last block that was allocated in this call. Each block begins with the address of the one before it. */
let lastBlock: usize = 0;

/** The size of the address, rounded up to the alignment of blocks. */
const HEADER: usize = 16;

/** Returns memory that is freed at the end of the call. */
export function allocate(size: usize): usize {
  const block = heap.alloc(HEADER + size);
  store<usize>(block, lastBlock);
  lastBlock = block;
  return block + HEADER;
}

/** Frees the memory of the call. */
export function freeAll(): void {
  while (lastBlock) {
    const previous = load<usize>(lastBlock);
    heap.free(lastBlock);
    lastBlock = previous;
  }
}

/** Returns memory for what the host passes to the plugin. The host calls this before an export, and during an import. */
export function cabi_realloc(pointer: usize, size: usize, alignment: usize, newSize: usize): usize {
  const result = allocate(newSize);
  if (pointer) memory.copy(result, pointer, min(size, newSize));
  return result;
}

/** The address at which imports store their results. The largest one is that of a request: 40 bytes. */
export const RESULT: usize = memory.data(64, 8);

/** A text that is passed to the host: its address, and its length in bytes of UTF-8. */
@final
export class Text {
  readonly pointer: usize;
  readonly length: usize;

  constructor(text: string) {
    const length = <usize>String.UTF8.byteLength(text);
    this.length = length;
    this.pointer = allocate(length);
    String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, this.pointer, false, String.UTF8.ErrorMode.REPLACE);
  }

  /** Stores the text as a part of a record or list. */
  storeAt(address: usize): void {
    store<usize>(address, this.pointer);
    store<usize>(address, this.length, 4);
  }
}

/** Returns the text whose address and length are stored here. */
export function textAt(address: usize): string {
  return String.UTF8.decodeUnsafe(load<usize>(address), load<usize>(address, 4));
}

/** Returns the text that is stored here as an option. */
export function optionalTextAt(address: usize): string | null {
  return load<u8>(address) ? textAt(address + 4) : null;
}

/** Returns the list of texts whose address and length are stored here. */
export function textsAt(address: usize): string[] {
  const items = load<usize>(address);
  const texts = new Array<string>(load<i32>(address, 4));
  for (let i = 0; i < texts.length; i++) texts[i] = textAt(items + 8 * i);
  return texts;
}

/** Like `textsAt`, for a list of options. */
export function optionalTextsAt(address: usize): Array<string | null> {
  const items = load<usize>(address);
  const texts = new Array<string | null>(load<i32>(address, 4));
  for (let i = 0; i < texts.length; i++) texts[i] = optionalTextAt(items + 12 * i);
  return texts;
}

/** Stores a list of texts, and returns its address. */
export function storeTexts(texts: string[]): usize {
  const items = allocate(8 * texts.length);
  for (let i = 0; i < texts.length; i++) new Text(texts[i]).storeAt(items + 8 * i);
  return items;
}
