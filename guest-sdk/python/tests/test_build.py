"""Errors in a project are reported before componentize-py runs, with file and line."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from pilothouse import build

SDK = Path(build.__file__).parent.parent

GOOD = """\
from pilothouse import Plugin
plugin = Plugin("greeter", "0.1.0")
@plugin.reconcile()
def reconcile(request):
    import colorsys
    from email.utils import parseaddr
"""


class BuildTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.project = Path(folder.name).resolve()
        self.write("pyproject.toml", '[project]\nname = "greeter"\n')

    def write(self, file, text):
        (self.project / file).write_text(text, encoding="utf-8")

    def build(self):
        """Builds with an interpreter that has no componentize-py."""
        environment = {"PYTHONPATH": str(SDK), "PATH": os.environ["PATH"]}
        command = [sys.executable, "-S", "-m", "pilothouse.build", "-o", "x.wasm"]
        done = subprocess.run(command, cwd=self.project, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def assert_reports(self, *texts):
        output = self.build()
        for text in texts:
            self.assertIn(text, output)

    def test_a_syntax_error(self):
        self.write("controller.py", "x = 1\ndef f(:\n    pass\n")
        self.assert_reports(f'File "{self.project}/controller.py", line 2', "def f(:", "SyntaxError")

    def test_a_missing_import(self):
        self.write("controller.py", "import pilothouse\n\nimport nonesuch\n")
        self.assert_reports(
            f'File "{self.project}/controller.py", line 3', "import nonesuch", "nonesuch is not installed: add it to requirements.txt"
        )

    def test_a_missing_name_in_a_module(self):
        self.write("controller.py", "from pilothouse import Plugins\n")
        self.assert_reports(f'File "{self.project}/controller.py", line 1', "ImportError: cannot import name 'Plugins'")

    def test_an_exception_of_the_module(self):
        self.write("helper.py", "def f():\n    return 1 / 0\n")
        self.write("controller.py", "import helper\nhelper.f()\n")
        output = self.build()
        self.assertIn(f'File "{self.project}/helper.py", line 2, in f', output)
        self.assertNotIn("pilothouse/build.py", output)
        self.assertNotIn("importlib", output)

    def test_no_module(self):
        self.assert_reports("has no module 'controller'; create controller.py", "[tool.pilothouse] module")

    def test_no_plugin_and_no_function(self):
        self.write("controller.py", "import pilothouse\n")
        self.assert_reports("controller.py: expected one plugin, found 0")
        self.write("controller.py", 'import pilothouse\nplugin = pilothouse.Plugin("greeter", "1")\n')
        self.assert_reports("the plugin has no function", "@plugin.reconcile")

    def test_an_invalid_manifest(self):
        self.write("pyproject.toml", "[project]\nversion = \"1\"\n")
        self.assert_reports("pyproject.toml: [project] has no name")
        self.write("pyproject.toml", "[project\n")
        self.assert_reports("pyproject.toml", "line 1")
        (self.project / "pyproject.toml").unlink()
        self.assert_reports("pyproject.toml does not exist")

    def test_the_tool_is_missing(self):
        self.write("controller.py", GOOD)
        command = [sys.executable, "-c", _WITHOUT_TOOL]
        done = subprocess.run(
            command, cwd=self.project, env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True, check=False
        )
        self.assertIn("componentize-py does not exist; install it:", done.stderr)


_WITHOUT_TOOL = """
import sys, sysconfig
from pilothouse import build
sysconfig.get_path = lambda name: "/nonexistent"
sys.argv = ["build", "-o", "x.wasm"]
build.main()
"""


class PartsTest(unittest.TestCase):
    def test_the_world_has_only_the_plugins_exports(self):
        text = build.world(["plugin", "index"])
        version = build.contract_version()
        exported = [line.strip() for line in text.splitlines() if "export" in line]
        self.assertEqual(
            exported,
            [f"export pilothouse:controller/plugin@{version};", f"export pilothouse:controller/index@{version};"],
        )

    def test_the_world_has_the_version_of_the_contract(self):
        self.assertIn(f"package pilothouse:controller@{build.contract_version()};", (SDK / "wit" / "types.wit").read_text())

    def test_imports_inside_functions_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "module.py"
            file.write_text(GOOD + "async def f():\n    import json.decoder\nclass C:\n    import ast\n", encoding="utf-8")
            module = type(sys)("module")
            module.__file__ = str(file)
            found = set(build.imports_in_functions(module))
        self.assertEqual(found, {"colorsys", "email.utils", "json.decoder"})


if __name__ == "__main__":
    unittest.main()
