"""What is wrong with a project shows before the tool runs, with file and line."""

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

    def assert_tells(self, *texts):
        told = self.build()
        for text in texts:
            self.assertIn(text, told)

    def test_a_syntax_error(self):
        self.write("controller.py", "x = 1\ndef f(:\n    pass\n")
        self.assert_tells(f'File "{self.project}/controller.py", line 2', "def f(:", "SyntaxError")

    def test_an_import_that_does_not_exist(self):
        self.write("controller.py", "import pilothouse\n\nimport nonesuch\n")
        self.assert_tells(
            f'File "{self.project}/controller.py", line 3', "import nonesuch", "nonesuch is not installed: add it to requirements.txt"
        )

    def test_a_name_that_a_module_does_not_have(self):
        self.write("controller.py", "from pilothouse import Plugins\n")
        self.assert_tells(f'File "{self.project}/controller.py", line 1', "ImportError: cannot import name 'Plugins'")

    def test_an_exception_of_the_module(self):
        self.write("helper.py", "def f():\n    return 1 / 0\n")
        self.write("controller.py", "import helper\nhelper.f()\n")
        told = self.build()
        self.assertIn(f'File "{self.project}/helper.py", line 2, in f', told)
        self.assertNotIn("pilothouse/build.py", told)
        self.assertNotIn("importlib", told)

    def test_no_module(self):
        self.assert_tells("there is no module 'controller'; write controller.py", "[tool.pilothouse] module")

    def test_no_plugin_and_no_function(self):
        self.write("controller.py", "import pilothouse\n")
        self.assert_tells("controller.py: it has 0 plugins")
        self.write("controller.py", 'import pilothouse\nplugin = pilothouse.Plugin("greeter", "1")\n')
        self.assert_tells("the plugin has no function", "@plugin.reconcile")

    def test_a_manifest_that_will_not_do(self):
        self.write("pyproject.toml", "[project]\nversion = \"1\"\n")
        self.assert_tells("pyproject.toml: [project] has no name")
        self.write("pyproject.toml", "[project\n")
        self.assert_tells("pyproject.toml", "line 1")
        (self.project / "pyproject.toml").unlink()
        self.assert_tells("pyproject.toml: there is no such file")

    def test_the_tool_is_missing(self):
        self.write("controller.py", GOOD)
        command = [sys.executable, "-c", _WITHOUT_TOOL]
        done = subprocess.run(
            command, cwd=self.project, env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True, check=False
        )
        self.assertIn("componentize-py is not there; install it:", done.stderr)


_WITHOUT_TOOL = """
import sys, sysconfig
from pilothouse import build
sysconfig.get_path = lambda name: "/nonexistent"
sys.argv = ["build", "-o", "x.wasm"]
build.main()
"""


class PartsTest(unittest.TestCase):
    def test_the_world_has_the_exports_and_no_other(self):
        text = build.world(["plugin", "index"])
        exported = [line.strip() for line in text.splitlines() if "export" in line]
        self.assertEqual(
            exported, ["export pilothouse:controller/plugin@0.1.0;", "export pilothouse:controller/index@0.1.0;"]
        )

    def test_imports_inside_of_functions_are_found_by_module(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "module.py"
            file.write_text(GOOD + "async def f():\n    import json.decoder\nclass C:\n    import ast\n", encoding="utf-8")
            module = type(sys)("module")
            module.__file__ = str(file)
            found = set(build.imports_in_functions(module))
        self.assertEqual(found, {"colorsys", "email.utils", "json.decoder"})


if __name__ == "__main__":
    unittest.main()
