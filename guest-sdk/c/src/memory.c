/* The memory of one call: a bump allocator over chunks, which are freed together. The host's allocations for arguments and results use it too,
 * so nothing is freed individually. Memory that outlives a call is allocated with malloc. */
#include "internal.h"

typedef struct ph_chunk {
  struct ph_chunk *older;
  size_t size, used;
  max_align_t memory[];
} ph_chunk;

enum { CHUNK = 16 * 1024 - 64 };

static ph_chunk *newest;
static ph_object *objects;

static void *from(ph_chunk *chunk, size_t size, size_t alignment) {
  size_t start = (chunk->used + alignment - 1) & ~(alignment - 1);
  if (start > chunk->size || chunk->size - start < size) return NULL;
  chunk->used = start + size;
  return (char *)chunk->memory + start;
}

static void *allocate(size_t size, size_t alignment) {
  void *memory = newest ? from(newest, size, alignment) : NULL;
  if (memory) return memory;
  size_t space = size > CHUNK ? size : CHUNK;
  ph_chunk *chunk = space + sizeof(ph_chunk) > space ? malloc(sizeof(ph_chunk) + space) : NULL;
  if (!chunk) {
    /* There is no memory left for a message; the host reports the memory limit. */
    __builtin_trap();
  }
  chunk->older = newest;
  chunk->size = space;
  chunk->used = 0;
  newest = chunk;
  return from(chunk, size, alignment);
}

void *ph_take(size_t size) { return allocate(size, _Alignof(max_align_t)); }

void *ph_alloc(size_t size) { return memset(ph_take(size), 0, size); }

void *ph_grow(void *memory, size_t size, size_t larger) {
  /* The newest allocation grows in place. */
  if (memory && newest && (char *)memory + size == (char *)newest->memory + newest->used &&
      newest->size - newest->used >= larger - size) {
    newest->used += larger - size;
    return memory;
  }
  void *grown = ph_take(larger);
  return size ? memcpy(grown, memory, size) : grown;
}

ph_mark ph_mark_here(void) {
  ph_mark mark = {newest, newest ? newest->used : 0, objects};
  return mark;
}

void ph_release(ph_mark mark) {
  while (objects && objects != mark.objects) {
    ph_object *object = objects;
    objects = object->older;
    ph_object_close(object);
  }
  while (newest && newest != mark.chunk) {
    ph_chunk *chunk = newest;
    newest = chunk->older;
    free(chunk);
  }
  if (newest) newest->used = mark.used;
}

ph_object *ph_opened(ph_own own) {
  ph_object *object = ph_take(sizeof *object);
  object->handle = own.__handle;
  object->older = objects;
  objects = object;
  return object;
}

void ph_object_close(ph_object *object) {
  if (!object || !object->handle) return;
  ph_own own = {object->handle};
  object->handle = 0;
  pilothouse_controller_objects_object_drop_own(own);
}

/* Objects are closed before the host reads the result, because afterwards no import may be called. */
void ph_close_objects_(void) {
  for (; objects; objects = objects->older) ph_object_close(objects);
}

/* Keeps the first chunk for the next call. */
void ph_end_call_(void) {
  while (newest && newest->older) {
    ph_chunk *chunk = newest;
    newest = chunk->older;
    free(chunk);
  }
  if (newest && newest->size > CHUNK) {
    free(newest);
    newest = NULL;
  }
  if (newest) newest->used = 0;
}

#ifdef __wasm__
/* Called by the host to allocate values that it passes. Allocates one more byte, so that every string ends in NUL. */
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *memory, size_t size, size_t alignment, size_t larger) {
  if (!larger) return (void *)alignment;
  char *grown = allocate(larger + 1, alignment);
  if (size) memcpy(grown, memory, size < larger ? size : larger);
  grown[larger] = 0;
  return grown;
}

/* Called by the WASI preview 1 adapter, once for its state and once for its stack, during the first call that uses WASI. It keeps both for the
 * lifetime of the instance, so they must not come from the memory of a call. */
__attribute__((export_name("cabi_realloc_adapter"))) void *cabi_realloc_adapter(void *memory, size_t size, size_t alignment, size_t larger) {
  if (!larger) return (void *)alignment;
  void *grown = aligned_alloc(alignment, (larger + alignment - 1) & ~(alignment - 1));
  if (!grown) __builtin_trap();
  if (size) memcpy(grown, memory, size < larger ? size : larger);
  free(memory);
  return grown;
}
#endif
