"""Compares the stand-in with the bindings that componentize-py generates (`pip install -e .`)."""

import dataclasses
import enum
import importlib
import inspect
import subprocess
import sys
import sysconfig
import tempfile
import unittest
from pathlib import Path

from pilothouse import _standin

TOOL = Path(sysconfig.get_path("scripts")) / "componentize-py"
WIT = Path(__file__).parent.parent / "wit"
INTERFACES = ["cache", "changes", "client", "config", "events", "log", "metrics", "objects", "queue", "types"]


@unittest.skipUnless(TOOL.exists(), "componentize-py is not installed beside this interpreter")
class StandinTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run(
            [TOOL, "-q", "-d", WIT, "-w", "controller", "bindings", f"{folder.name}/made"], check=True, capture_output=True
        )
        sys.path.insert(0, f"{folder.name}/made")
        cls.addClassCleanup(sys.path.remove, f"{folder.name}/made")

    def test_every_interface_has_the_same_names_and_signatures(self):
        for interface in INTERFACES:
            made = importlib.import_module(f"wit_world.imports.{interface}")
            ours = getattr(_standin, interface)
            with self.subTest(interface):
                self.assertEqual(shape(vars(ours), ours.__qualname__), shape(vars(made), made.__name__))

    def test_no_interface_is_missing(self):
        import wit_world.imports

        folder = Path(wit_world.imports.__file__).parent
        self.assertEqual(sorted(file.stem for file in folder.glob("[a-z]*.py")), INTERFACES)


def shape(names, home):
    """Functions with their parameters, records with their fields, enums with their members, resources with their methods."""
    found = {}
    for name, value in names.items():
        value = value.__func__ if isinstance(value, staticmethod) else value
        if name.startswith("_") or getattr(value, "__module__", None) not in (home, _standin.__name__):
            continue
        if inspect.isfunction(value):
            found[name] = list(inspect.signature(value).parameters)
        elif not inspect.isclass(value):
            continue
        elif issubclass(value, enum.Enum):
            found[name] = [member.name for member in value]
        elif dataclasses.is_dataclass(value):
            found[name] = [field.name for field in dataclasses.fields(value)]
        else:
            methods = {key: method for key, method in vars(value).items() if inspect.isfunction(method)}
            found[name] = {
                key: list(inspect.signature(method).parameters) for key, method in methods.items() if not key.startswith("_")
            }
    return found


if __name__ == "__main__":
    unittest.main()
