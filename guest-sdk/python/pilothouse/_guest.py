"""The glue between the contract's exports and a plugin's functions."""

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

#: componentize-py mounts each folder under a number: `/0/controller.py`.
_MOUNT = re.compile(r"^/\d+/")
_SDK = PurePath(__file__).parent.name
#: The folder of Python's standard library.
_LIBRARY = PurePath(json.__file__).parent.parent


def exports(plugin: Plugin) -> dict[str, Any]:
    """Returns the classes that componentize-py looks up by name, one per interface that the plugin exports."""
    guest = Guest(plugin)

    class Exported:
        """Implements all interfaces, because each has one function and no two have the same name."""

        describe = guest.describe
        reconcile = guest.reconcile
        observe = guest.observe
        values = guest.values

    return {name.capitalize(): Exported for name in plugin.exports}


class Guest:
    """One instance of the plugin."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._is_initialized = False

    def describe(self, _config: str) -> str:
        """The export `plugin.describe`. Its argument is unused, because `config.get` returns the same text in every call."""
        try:
            self._initialize()
            return json.dumps(self._plugin.descriptor())
        except Exception as error:
            raise Err(error_text(error)) from None

    def reconcile(self, request: types.Request) -> types.Outcome:
        """The export `reconcile.reconcile`."""
        try:
            self._initialize()
            work = Request.from_wit(request)
            return outcome(self._plugin.reconcile_function(work.watch)(work))
        except Exception as error:
            raise Err(failure(error)) from None
        finally:
            objects.close_all()

    def observe(self, notifications: list[Any], batch: changes.Batch) -> None:
        """The export `observe.observe`."""
        with batch:
            try:
                self._initialize()
                self._plugin.observe_function()(
                    [Notification(one, batch, position) for position, one in enumerate(notifications)]
                )
            except (Retry, Terminal) as error:
                raise Err(failure(error)) from None
            finally:
                # Any other exception propagates and ends the instance, because the observer's state may be inconsistent.
                objects.close_all()

    def values(self, index: str, handle: wit_objects.Object) -> list[str]:
        """The export `index.values`."""
        try:
            self._initialize()
            return list(self._plugin.index_function(index)(Object(handle)))
        finally:
            objects.close_all()

    def _initialize(self) -> None:
        """Initializes the instance at its first call. Every instance starts from the memory image that the build made."""
        if self._is_initialized:
            return
        # Otherwise every instance would generate the same random numbers.
        random.seed()
        self._plugin.run_configure(config.get())
        self._is_initialized = True


def outcome(returned: Outcome) -> types.Outcome:
    """Converts what a reconcile returned to the contract's type."""
    if returned is None:
        return types.Outcome_Done()
    if isinstance(returned, timedelta):
        return types.Outcome_RequeueAfter(_duration.milliseconds(returned))
    raise TypeError(f"a reconcile returns None or a timedelta, not {returned!r}")


def failure(error: Exception) -> types.Failure:
    """Converts what a reconcile raised to the contract's type."""
    text = error_text(error)
    return types.Failure_Terminal(text) if isinstance(error, Terminal) else types.Failure_Retry(text)


def error_text(error: Exception) -> str:
    """Returns an exception as one line for people, and logs its traceback unless the line is sufficient."""
    if isinstance(error, (Retry, Terminal, PluginError)):
        return str(error) or type(error).__name__
    start = error.__traceback__
    while start is not None and start.tb_next is not None and _is_sdk(start.tb_frame.f_code.co_filename):
        start = start.tb_next
    frames = traceback.extract_tb(start)
    own = [frame for frame in frames if not _is_sdk(frame.filename) and not _is_library(frame.filename)] or frames
    text = str(error) if isinstance(error, ApiError) else traceback.format_exception_only(error)[-1].strip()
    if not isinstance(error, ApiError):
        for lines in traceback.format_exception(type(error), error, start):
            for line in lines.rstrip().splitlines():
                log.error(re.sub(r'File "/\d+/', 'File "', line))
    return f"{text} ({_MOUNT.sub('', own[-1].filename)}:{own[-1].lineno} in {own[-1].name})"


def _is_sdk(file: str) -> bool:
    return PurePath(file).parent.name == _SDK


def _is_library(file: str) -> bool:
    return file.startswith("<") or PurePath(file).is_relative_to(_LIBRARY)


def prepare() -> None:
    """Prepares the module once, when the plugin is built."""
    if in_plugin:
        log.install()
