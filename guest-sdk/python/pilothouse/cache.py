"""Reads of the watched objects from the host's cache."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from . import queue
from ._wit import cache as wit
from ._wit import key as wit_key
from .key import ObjectKey
from .object import Object, opened


@dataclass(frozen=True)
class Page:
    """One page of a list."""

    #: The objects, ordered by namespace, then name.
    items: list[Object]
    #: The `cursor` of the next page; None after the last page.
    next: str | None


class Row(NamedTuple):
    """The values that `Cache.list_fields` read from one object, one per pointer."""

    key: ObjectKey
    #: The values as Python objects; None when nothing is at the pointer.
    values: list[Any]


class Cache:
    """Reads the objects of one watch. No method sends a request to the API server or waits.

    The plugin's own writes are visible immediately; everything else is as fresh as the watch. A name that the descriptor does not
    declare ends the call, with a message that lists the declared ones.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def get(self, key: tuple[str, str]) -> Object | None:
        """Returns the object with this key, or None when the watch does not contain it."""
        return opened(wit.get(self.name, wit_key(key)))

    def list(self, *, namespace: str = "", labels: str = "", page_size: int = 0) -> Iterator[Object]:
        """Yields all objects, ordered by namespace, then name, reading page by page.

        `labels` is a selector in kubectl's syntax: `app=web,tier in (a, b)`. Scans all objects of the watch: with an index,
        `by_index` is cheaper.
        """
        cursor: str | None = ""
        while cursor is not None:
            page = self.page(namespace=namespace, labels=labels, limit=page_size, cursor=cursor)
            cursor = page.next
            # The list gives up its references one by one, so that the handle of an object that the caller drops is closed.
            items = page.items
            del page
            items.reverse()
            while items:
                yield items.pop()

    def page(self, *, namespace: str = "", labels: str = "", limit: int = 0, cursor: str = "") -> Page:
        """Returns one page of at most `limit` objects, never more than 500. A limit of 0 means 500."""
        page = wit.list(self.name, wit.Filter(namespace, labels, limit, cursor))
        return Page([Object(item) for item in page.items], page.next or None)

    def list_fields(
        self,
        pointers: Sequence[str],
        *,
        namespace: str = "",
        labels: str = "",
        limit: int = 0,
        cursor: str = "",
    ) -> Sequence[Row]:
        """Returns the values at JSON pointers (RFC 6901, at most 64) of many objects in one call, without copying objects or opening
        handles. A limit of 0 means all objects."""
        rows = wit.list_fields(self.name, wit.Filter(namespace, labels, limit, cursor), list(pointers))
        return [
            Row(
                ObjectKey(row.key.namespace, row.key.name),
                [None if value is None else json.loads(value) for value in row.values],
            )
            for row in rows
        ]

    def by_index(self, index: str, value: str) -> Sequence[Object]:
        """Returns all objects with this value in a declared index."""
        return [Object(handle) for handle in wit.by_index(self.name, index, value)]

    def index_keys(self, index: str, value: str) -> Sequence[ObjectKey]:
        """Returns the keys of the objects with this index value, without reading the objects."""
        return [ObjectKey(key.namespace, key.name) for key in wit.index_keys(self.name, index, value)]

    def index_values(self, index: str) -> Sequence[str]:
        """Returns all values of an index that at least one object has, sorted."""
        values: Sequence[str] = wit.index_values(self.name, index)
        return values

    @property
    def has_synced(self) -> bool:
        """Whether the initial list is complete in the cache. Always True in a reconcile; an observer may see it become True."""
        return wit.has_synced(self.name)

    def enqueue(self, key: tuple[str, str], *, after: timedelta | None = None) -> None:
        """Queues an object of this watch, which must be a target watch (one with the trigger `self`). See `queue.add`."""
        queue.add(self.name, key, after=after)
