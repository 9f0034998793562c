"""What the registries show is not empty, and would be taken: PyPI's page, npm's and that of crates.io."""

import email
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# An address stands in no manifest until it is decided.
ADDRESSES = {name: address for name, address in tomllib.loads((ROOT / ".ci/dist/addresses.toml").read_text()).items() if address}
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def run(*command):
    # A run of npm hands its settings down.
    environment = {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Registries(unittest.TestCase):
    def test_pypi(self):
        [wheel] = (ROOT / "target" / "wheels").glob("quorlock-*.whl")
        self.assertIn("PASSED", run(sys.executable, "-m", "twine", "check", "--strict", wheel))
        with zipfile.ZipFile(wheel) as files:
            [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
            told = email.message_from_bytes(files.read(name))
            self.assertTrue([name for name in files.namelist() if ".dist-info/licenses/" in name])
        self.assertEqual((told["Name"], told["Version"]), ("quorlock", VERSION))
        self.assertIn("text/markdown", told["Description-Content-Type"])
        self.assertIn("## By hand", told.get_payload())
        self.assertEqual(told["License-Expression"], "Apache-2.0")
        for field, least in {"Classifier": 10, "Project-URL": len(ADDRESSES), "License-File": 1}.items():
            self.assertGreaterEqual(len(told.get_all(field, [])), least, field)
        self.assertIn("redlock", told["Keywords"])

    def test_npm(self):
        told = run("npm", "publish", "--dry-run", "--offline", "./node")
        self.assertNotIn("auto-corrected", told)
        with tempfile.TemporaryDirectory() as folder:
            run("npm", "pack", "--silent", "--pack-destination", folder, "./node")
            with tarfile.open(next(pathlib.Path(folder).glob("*.tgz"))) as files:
                names = files.getnames()
                package = json.load(files.extractfile("package/package.json"))
        self.assertLessEqual({"package/README.md", "package/LICENSE"}, set(names))
        self.assertEqual(package["version"], VERSION)
        for field in ("description", "keywords", "license", "engines", "types", "exports", *ADDRESSES):
            self.assertTrue(package.get(field), field)

    def test_crates_io(self):
        # Whether it compiles as it is packed is not tried: that takes as long as a build. Before a release leave out --no-verify.
        words = ["--locked", "--no-verify", "--allow-dirty", "-p", "quorlock"]
        told = run("cargo", "publish", "--dry-run", *words)
        self.assertNotIn("manifest has no", told)
        files = run("cargo", "package", "--list", "--allow-dirty", "-p", "quorlock").split()
        self.assertLessEqual({"README.md", "LICENSE", "Cargo.toml", "src/lib.rs"}, set(files))
        self.assertFalse([name for name in files if name.startswith("proptest")])
        words = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"]
        told = json.loads(subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout)
        [package] = [each for each in told["packages"] if each["name"] == "quorlock"]
        for field in ("description", "readme", "license", "keywords", "categories", "documentation", "rust_version"):
            self.assertTrue(package.get(field), field)


if __name__ == "__main__":
    unittest.main()
