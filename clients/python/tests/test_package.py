"""The types are those of schemas/, the package can be built, and the example of its README runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from typing import Any, get_args, get_type_hints

import agentbus
from agentbus import events
from gateways import URLS

ROOT = Path(__file__).parent.parent
SCHEMAS = ROOT.parent.parent / "schemas"


def members(schema: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Returns the members of a schema with those that it refers to, and the required ones."""
    common = json.loads((SCHEMAS / "common.json").read_text())
    names, required = set(schema.get("properties", {})), set(schema.get("required", []))
    for part in schema.get("allOf", []):
        if "$ref" in part:
            more, needed = members(common["$defs"][part["$ref"].rpartition("/")[2]])
            names, required = names | more, required | needed
    return names, required


class TestTypes(unittest.TestCase):
    def test_the_events_have_the_members_of_their_schemas(self) -> None:
        types = {get_args(get_type_hints(event)["event"])[0]: event for event in get_args(events.AgentEvent)}
        self.assertEqual(set(types), {*agentbus.EVENT_TYPES, *agentbus.EXTENDED_EVENT_TYPES})
        for name, event in types.items():
            with self.subTest(event=name):
                want = members(json.loads((SCHEMAS / "events" / f"{name}.json").read_text()))
                self.assertEqual((set(get_type_hints(event)), set(event.__required_keys__)), want)

    def test_the_names_are_those_of_the_api(self) -> None:
        document = (SCHEMAS / "openapi.yaml").read_text()
        names = re.search(r"EventName:\s+type: string\s+enum:\s+\[([^]]+)\]", document)
        assert names is not None
        want = set(re.findall(r"\w+", names[1]))
        self.assertEqual({*agentbus.EVENT_TYPES, *agentbus.EXTENDED_EVENT_TYPES}, want)

    def test_the_types_are_consistent(self) -> None:
        if shutil.which("mypy") is None:
            self.skipTest("mypy is not installed")
        env = {**os.environ, "MYPYPATH": "src:tests"}
        subprocess.run(["mypy", "--config-file", "pyproject.toml", "src", "tests"], cwd=ROOT, env=env, check=True)


class TestPackage(unittest.TestCase):
    def test_the_source_archive_contains_what_a_user_needs(self) -> None:
        try:
            import setuptools  # type: ignore[import]  # noqa: F401
        except ImportError:
            self.skipTest("setuptools is not installed")
        with tempfile.TemporaryDirectory() as dir:
            source = Path(dir, "source")
            shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", "build", "dist"))
            build = "import setuptools.build_meta as build; print(build.build_sdist('out'))"
            subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
            (archive,) = (source / "out").iterdir()
            with tarfile.open(archive) as tar:
                names = {name.partition("/")[2] for name in tar.getnames()}
        modules = {f"src/agentbus/{path.name}" for path in (ROOT / "src" / "agentbus").iterdir() if path.is_file()}
        self.assertLessEqual({"pyproject.toml", "README.md", "LICENSE", "src/agentbus/py.typed"} | modules, names)

    def test_the_example_of_the_readme_runs(self) -> None:
        readme = (ROOT / "README.md").read_text().replace("http://127.0.0.1:8080", URLS[0])
        example = readme.split("```python\n")[1].split("```")[0]
        out = subprocess.run([sys.executable, "-c", example], check=True, capture_output=True, text=True).stdout
        self.assertIn("42", out)
