"""Between the contract's exports and a plugin's functions."""

from __future__ import annotations

import json
import random
import re
import traceback
from datetime import timedelta
from pathlib import PurePath
from typing import Any

from . import _duration, config, log, object as objects
from ._wit import Err, changes, in_plugin, types
from ._wit import objects as wit_objects
from .errors import ApiError, PluginError, Retry, Terminal
from .object import Object
from .plugin import Outcome, Plugin
from .request import Notification, Request

#: The tool mounts each folder under a number: `/0/controller.py`.
_MOUNT = re.compile(r"^/\d+/")
_SDK = PurePath(__file__).parent.name
#: Python's own modules.
_LIBRARY = PurePath(json.__file__).parent.parent


def exports(plugin: Plugin) -> dict[str, Any]:
    """The classes that componentize-py looks for, by name: those that the plugin needs."""
    guest = Guest(plugin)

    class Exported:
        """Each interface has one function, and no two have the same name."""

        describe = guest.describe
        reconcile = guest.reconcile
        observe = guest.observe
        values = guest.values

    return {name.capitalize(): Exported for name in plugin.exports}


class Guest:
    """One instance of the plugin."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._begun = False

    def describe(self, _config: str) -> str:
        """`plugin.describe`. What it is given is what `config.get` answers in every call."""
        try:
            self._begin()
            return json.dumps(self._plugin.descriptor())
        except Exception as error:
            raise Err(told(error)) from None

    def reconcile(self, request: types.Request) -> types.Outcome:
        """`reconcile.reconcile`"""
        try:
            self._begin()
            work = Request.from_wit(request)
            return outcome(self._plugin.reconcile_function(work.watch)(work))
        except Exception as error:
            raise Err(failure(error)) from None
        finally:
            objects.close_all()

    def observe(self, notifications: list[Any], batch: changes.Batch) -> None:
        """`observe.observe`"""
        with batch:
            try:
                self._begin()
                told_of = [Notification(one, batch, at) for at, one in enumerate(notifications)]
                self._plugin.observe_function()(told_of)
            except (Retry, Terminal) as error:
                raise Err(failure(error)) from None
            finally:
                # Anything else leaves this function, and ends the instance: what the observer holds may be half changed.
                objects.close_all()

    def values(self, index: str, handle: wit_objects.Object) -> list[str]:
        """`index.values`"""
        try:
            self._begin()
            return list(self._plugin.index_function(index)(Object(handle)))
        finally:
            objects.close_all()

    def _begin(self) -> None:
        """What an instance does first. Every instance starts from the memory that the build left."""
        if self._begun:
            return
        # Else every instance would draw the same numbers.
        random.seed()
        self._plugin.run_configure(config.get())
        self._begun = True


def outcome(returned: Outcome) -> types.Outcome:
    """What a reconcile returned, in the contract's form."""
    if returned is None:
        return types.Outcome_Done()
    if isinstance(returned, timedelta):
        return types.Outcome_RequeueAfter(_duration.milliseconds(returned))
    raise TypeError(f"a reconcile returns None or a timedelta, not {returned!r}")


def failure(error: Exception) -> types.Failure:
    """What a reconcile raised, in the contract's form."""
    text = told(error)
    return types.Failure_Terminal(text) if isinstance(error, Terminal) else types.Failure_Retry(text)


def told(error: Exception) -> str:
    """An exception as one line for people. Where it does not tell all by itself, the traceback goes to the log."""
    if isinstance(error, (Retry, Terminal, PluginError)):
        return str(error) or type(error).__name__
    begin = error.__traceback__
    while begin is not None and begin.tb_next is not None and _is_ours(begin.tb_frame.f_code.co_filename):
        begin = begin.tb_next
    frames = traceback.extract_tb(begin)
    last = [frame for frame in frames if not _is_ours(frame.filename) and not _is_library(frame.filename)] or frames
    text = str(error) if isinstance(error, ApiError) else traceback.format_exception_only(error)[-1].strip()
    if not isinstance(error, ApiError):
        for lines in traceback.format_exception(type(error), error, begin):
            for line in lines.rstrip().splitlines():
                log.error(re.sub(r'File "/\d+/', 'File "', line))
    return f"{text} ({_MOUNT.sub('', last[-1].filename)}:{last[-1].lineno} in {last[-1].name})"


def _is_ours(file: str) -> bool:
    return PurePath(file).parent.name == _SDK


def _is_library(file: str) -> bool:
    return file.startswith("<") or PurePath(file).is_relative_to(_LIBRARY)


def prepare() -> None:
    """What is done once, when the plugin is built."""
    if in_plugin:
        log.install()
