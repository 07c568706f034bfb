"""Builds a plugin: `python -m pilothouse.build -o FILE.wasm`, in the project's folder. `pilothouse build` calls it.

`pyproject.toml` configures the build: `[project] name`, and `[tool.pilothouse] module`, the module with the `Plugin` ("controller" by
default).
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .plugin import Plugin

#: The folder with the SDK's package and `wit/`.
SDK = Path(__file__).resolve().parent.parent

#: The folder with the contract.
WIT = SDK / "wit"

#: Modules that the standard library imports lazily. A plugin has no files to import them from later.
LAZY = ["_strptime", "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "linecache", "traceback"]


class Problem(Exception):
    """The project cannot be built. The text says why, and what to do."""


def main() -> None:
    """Builds the plugin, and prints the project's name."""
    parser = argparse.ArgumentParser(prog="python -m pilothouse.build", description="Builds the plugin in this folder.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.wasm")
    output = parser.parse_args().output.resolve()
    try:
        print(build(Path.cwd(), output))
    except Problem as problem:
        sys.exit(f"error: {problem}")


def build(project: Path, output: Path) -> str:
    """Builds the plugin of a project into a file, and returns the project's name."""
    name, module = settings(project)
    plugin = load(project, module)
    with tempfile.TemporaryDirectory(prefix="pilothouse-build-") as folder:
        scratch = Path(folder)
        (scratch / "wit").mkdir()
        (scratch / "wit" / "world.wit").write_text(world(plugin.exports), encoding="utf-8")
        (scratch / "pilothouse_entry.py").write_text(entry(module, lazy_imports(project)), encoding="utf-8")
        componentize(project, scratch, output)
    return name


def settings(project: Path) -> tuple[str, str]:
    """Returns the project's name and module."""
    manifest = project / "pyproject.toml"
    try:
        document = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"{manifest} does not exist; it needs at least\n[project]\nname = \"NAME\"") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem(f"{manifest}: {error}") from None
    name = document.get("project", {}).get("name")
    module = document.get("tool", {}).get("pilothouse", {}).get("module", "controller")
    if not isinstance(name, str) or not name:
        raise Problem(f"{manifest}: [project] has no name; add a line: name = \"NAME\"")
    if not isinstance(module, str) or not module:
        raise Problem(f"{manifest}: module in [tool.pilothouse] must be the name of a module, such as \"controller\"")
    return name, module


def load(project: Path, module: str) -> Plugin:
    """Imports the module natively and returns its plugin. Errors in the module are reported with file and line."""
    sys.path.insert(0, str(project))
    sys.dont_write_bytecode = True
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise Problem(
                f"{project} has no module {module!r}; create {module}.py, or name another module in pyproject.toml: "
                "[tool.pilothouse] module = \"NAME\""
            ) from None
        raise Problem(f"{where(error)}\n{error.name} is not installed: add it to requirements.txt") from None
    except Exception as error:
        raise Problem(where(error)) from None
    found = [value for value in vars(imported).values() if isinstance(value, Plugin)]
    if len(found) != 1:
        raise Problem(f"{imported.__file__}: expected one plugin, found {len(found)}; write: plugin = pilothouse.Plugin(\"NAME\", \"0.1.0\")")
    if len(found[0].exports) < 2:
        raise Problem(f"{imported.__file__}: the plugin has no functions; decorate one with @plugin.reconcile(\"WATCH\")")
    return found[0]


def where(error: Exception) -> str:
    """Returns the traceback, starting at the project's own code."""
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename.startswith((__file__, "<frozen ", importlib.__path__[0])):
        own = own.tb_next
    text = "".join(traceback.format_exception(type(error), error, own))
    return f"importing the plugin failed\n{text.rstrip()}"


def lazy_imports(project: Path) -> list[str]:
    """Returns the modules that the project's code imports inside functions. They must be imported at build time, because a plugin has
    no files."""
    names = {name for module in own_modules(project) for name in imports_in_functions(module)}
    return sorted({*LAZY, *names})


def own_modules(project: Path) -> Iterator[ModuleType]:
    """Yields the modules that were imported from the project's folder, except those of its virtual environment."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py") and Path(file).is_relative_to(project):
            relative = Path(file).relative_to(project)
            if not relative.parts[0].startswith(".") and not Path(file).is_relative_to(SDK):
                yield module


def imports_in_functions(module: ModuleType) -> Iterator[str]:
    """Yields the modules that a module's functions import."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def world(exports: list[str]) -> str:
    """Returns a WIT world with only these exports, because the host calls everything that a plugin exports."""
    version = contract_version()
    lines = "\n".join(f"    export pilothouse:controller/{name}@{version};" for name in exports)
    return (
        "package pilothouse:build;\n\n"
        f"world plugin-world {{\n    include pilothouse:controller/imports@{version};\n{lines}\n}}\n"
    )


def contract_version() -> str:
    """Returns the version of the contract."""
    if not WIT.is_dir():
        raise Problem(f"{WIT} does not exist; the SDK needs its whole folder, with wit/ beside pilothouse/")
    for file in sorted(WIT.glob("*.wit")):
        declaration = re.search(r"^package pilothouse:controller@([^;]+);", file.read_text(encoding="utf-8"), re.MULTILINE)
        if declaration:
            return declaration[1]
    raise Problem(f"{WIT}: no file says `package pilothouse:controller@VERSION;`; copy the SDK again")


def entry(module: str, lazy: list[str]) -> str:
    """Returns the source of the module that componentize-py inspects. It is separate from the plugin's own module, which may use the same
    names for other things."""
    return f"""\
import importlib

for name in {lazy!r}:
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # The function that imports it will get the error.

from pilothouse import Plugin, _guest

_guest.prepare()
module = importlib.import_module({module!r})
[plugin] = [value for value in vars(module).values() if isinstance(value, Plugin)]
del Plugin
globals().update(_guest.exports(plugin))
"""


def componentize(project: Path, scratch: Path, output: Path) -> None:
    """Runs componentize-py."""
    tool = Path(sysconfig.get_path("scripts")) / "componentize-py"
    if not tool.is_file():
        raise Problem(f"{tool} does not exist; install it: {sys.executable} -m pip install -r requirements.txt")
    command: list[Any] = [tool, "-q", "-d", WIT, "-d", scratch / "wit", "-w", "pilothouse:build/plugin-world"]
    command += ["componentize", "pilothouse_entry", "-o", output]
    # The first folder that has a module takes precedence.
    for folder in (scratch, project, SDK, sysconfig.get_path("purelib")):
        command += ["-p", folder]
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        output_text = (done.stdout + done.stderr).strip()
        raise Problem(f"componentize-py failed:\n{output_text}")


if __name__ == "__main__":
    main()
