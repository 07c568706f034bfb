"""The watched objects, as the host holds them in memory."""

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
    """A part of a list."""

    #: In the order of namespace and name.
    items: list[Object]
    #: Where to go on: the `cursor` of the next page. None after the last one.
    next: str | None


class Row(NamedTuple):
    """Values of one object, one per pointer asked for."""

    key: ObjectKey
    #: As Python has them; None when nothing is there.
    values: list[Any]


class Cache:
    """The objects of one watch. No read here reaches the API server or waits.

    Reads include this plugin's own writes at once; everything else is as fresh as the watch. A name that the descriptor
    does not have ends the call, with a message that lists those it has.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def get(self, key: tuple[str, str]) -> Object | None:
        """The object with this key; None when the watch does not have it."""
        return opened(wit.get(self.name, wit_key(key)))

    def list(self, *, namespace: str = "", labels: str = "", page_size: int = 0) -> Iterator[Object]:
        """All objects, page by page behind the scenes, in the order of namespace and name.

        `labels` is a selector in kubectl's syntax: `app=web,tier in (a, b)`. Costs a pass over the watch's objects: with an
        index, `by_index` is cheaper.
        """
        cursor: str | None = ""
        while cursor is not None:
            page = self.page(namespace=namespace, labels=labels, limit=page_size, cursor=cursor)
            cursor = page.next
            # Taken out one by one, so that an object that the caller drops gives its handle back.
            items = page.items
            del page
            items.reverse()
            while items:
                yield items.pop()

    def page(self, *, namespace: str = "", labels: str = "", limit: int = 0, cursor: str = "") -> Page:
        """One page of at most `limit` objects, and never more than 500."""
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
        """Values at RFC 6901 pointers (at most 64) of many objects in one call: no object is copied, no handle is opened."""
        rows = wit.list_fields(self.name, wit.Filter(namespace, labels, limit, cursor), list(pointers))
        return [
            Row(
                ObjectKey(row.key.namespace, row.key.name),
                [None if value is None else json.loads(value) for value in row.values],
            )
            for row in rows
        ]

    def by_index(self, index: str, value: str) -> Sequence[Object]:
        """All objects with this value in a declared index."""
        return [Object(handle) for handle in wit.by_index(self.name, index, value)]

    def index_keys(self, index: str, value: str) -> Sequence[ObjectKey]:
        """The keys of the objects with this index value: no object is read."""
        return [ObjectKey(key.namespace, key.name) for key in wit.index_keys(self.name, index, value)]

    def index_values(self, index: str) -> Sequence[str]:
        """The values that at least one object has, in order."""
        values: Sequence[str] = wit.index_values(self.name, index)
        return values

    @property
    def has_synced(self) -> bool:
        """Whether the first list has been taken in whole. Always so inside a reconcile; an observer may see it turn."""
        return wit.has_synced(self.name)

    def enqueue(self, key: tuple[str, str], *, after: timedelta | None = None) -> None:
        """Queues an object of this watch, which must be a target: one with the trigger `self`. See `queue.add`."""
        queue.add(self.name, key, after=after)
