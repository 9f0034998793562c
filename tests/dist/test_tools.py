"""What decides whether a commit is released, and whether it can take the place of the last release; what puts a release together."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".ci" / "dist")]

import addresses  # noqa: E402
import compatible  # noqa: E402
import gather  # noqa: E402
import materials  # noqa: E402
import releasable  # noqa: E402
import same  # noqa: E402

PLACES = ("Cargo.toml", "node/package.json", "node/cli/package.json", "include/quorlock.h")
MANIFESTS = ("core/Cargo.toml", "core/cli/Cargo.toml", "py/pyproject.toml")
ADDRESS = "https://github.com/somebody/quorlock"
CHANGELOG = "# Changes\n\n## Unreleased\n\nNothing yet.\n\n## {} (2026-12-01)\n\n- It locks.\n\n## 0.0.1 (2026-01-01)\n\n- Old.\n"
HEADER = "#define QUORLOCK_VERSION_MINOR 1\n#define QUORLOCK_ABI_VERSION 0\nenum {\n  QUORLOCK_OK = 0,\n  QUORLOCK_TIMEOUT = 3,\n};\n"
SYMBOLS = "quorlock_lock\nquorlock_unlock\n"


class Releasable(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for place in (*PLACES, *MANIFESTS):
            (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / place, self.root / place)
        self.version = releasable.versions(ROOT)["Cargo.toml, package"]
        (self.root / "CHANGELOG.md").write_text(CHANGELOG.format(self.version))
        self.enterContext(unittest.mock.patch.dict(os.environ))
        os.environ.pop("GITHUB_REPOSITORY", None)
        self.addressed(repository=ADDRESS, homepage=ADDRESS, bugs=f"{ADDRESS}/issues")

    def addressed(self, fill=True, **known):
        """The project has these addresses, and its manifests have them."""
        place = self.root / ".ci/dist/addresses.toml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(f'{name} = "{known.get(name, "")}"\n' for name in addresses.NAMES))
        for path, text in addresses.manifests(self.root).items() if fill else ():
            (self.root / path).write_text(text)

    def test_addresses_reach_every_manifest_and_leave_it(self):
        of_node = [json.loads((self.root / path).read_text()) for path in addresses.NODE]
        self.assertEqual([found["repository"]["url"] for found in of_node], [f"git+{ADDRESS}.git"] * 2)
        self.assertEqual([found["repository"]["directory"] for found in of_node], ["node", "node/cli"])
        cargo = tomllib.loads((self.root / "Cargo.toml").read_text())["workspace"]["package"]
        self.assertEqual((cargo["homepage"], cargo["repository"]), (ADDRESS, ADDRESS))
        for crate in ("core", "core/cli"):
            package = tomllib.loads((self.root / crate / "Cargo.toml").read_text())["package"]
            self.assertEqual((package["homepage"], package["repository"]), ({"workspace": True}, {"workspace": True}))
        urls = tomllib.loads((self.root / "py/pyproject.toml").read_text())["project"]["urls"]
        self.assertEqual(urls["Issues"], f"{ADDRESS}/issues")
        self.addressed()
        self.assertNotIn(ADDRESS, "".join((self.root / path).read_text() for path in (*PLACES, *MANIFESTS)))
        # As they are here.
        self.addressed(**addresses.decided(ROOT))
        for path in addresses.manifests(self.root):
            self.assertEqual((self.root / path).read_text(), (ROOT / path).read_text(), path)

    def test_a_release_without_an_address_or_from_elsewhere_is_refused(self):
        self.addressed(repository=ADDRESS, bugs=ADDRESS)
        [found] = releasable.wrong(self.root, f"v{self.version}")
        self.assertIn("has no homepage", found)
        self.addressed(fill=False, repository=ADDRESS, homepage=ADDRESS, bugs=ADDRESS)
        found = releasable.wrong(self.root, f"v{self.version}")
        self.assertTrue(found and all("has other addresses" in line for line in found), found)
        self.addressed(repository=ADDRESS, homepage=ADDRESS, bugs=ADDRESS)
        for repository, wrong in (("somebody/quorlock", 0), ("fork/quorlock", 1)):
            os.environ["GITHUB_REPOSITORY"] = repository
            self.assertEqual(len(releasable.wrong(self.root, f"v{self.version}")), wrong, repository)

    def test_a_version_that_is_the_same_everywhere_with_its_changes(self):
        self.assertEqual(releasable.wrong(self.root, f"v{self.version}"), [])
        self.assertEqual(releasable.notes(CHANGELOG.format("1.2.3"), "1.2.3"), "- It locks.")

    def test_each_place_is_looked_at(self):
        for place in PLACES:
            text = (self.root / place).read_text()
            (self.root / place).write_text(text.replace(self.version, "9.9.9"))
            found = releasable.wrong(self.root, f"v{self.version}")
            self.assertTrue(found and all(place in line and "9.9.9" in line for line in found), found)
            (self.root / place).write_text(text)

    def test_a_changelog_that_says_nothing(self):
        for text in (CHANGELOG.format("7.7.7"), f"# Changes\n\n## Unreleased\n\n## {self.version} (2026-12-01)\n\n## 0.0.1 (2026-01-01)\n\n- Old.\n"):
            (self.root / "CHANGELOG.md").write_text(text)
            [found] = releasable.wrong(self.root, f"v{self.version}")
            self.assertIn("CHANGELOG", found)


class Compatible(unittest.TestCase):
    def broken(self, symbols=SYMBOLS, header=HEADER):
        return compatible.broken((SYMBOLS, HEADER), (symbols, header))

    def test_what_is_added_breaks_nothing(self):
        header = HEADER.replace("};", "  QUORLOCK_NEW = 9,\n};").replace("MINOR 1", "MINOR 2")
        self.assertEqual(self.broken(SYMBOLS + "quorlock_new\n", header), [])

    def test_what_is_gone_or_has_another_number_does(self):
        [found] = self.broken("quorlock_lock\n")
        self.assertIn("quorlock_unlock", found)
        [found] = self.broken(header=HEADER.replace("TIMEOUT = 3", "TIMEOUT = 4"))
        self.assertIn("QUORLOCK_TIMEOUT was 3 and is 4", found)

    def test_another_abi_may_break_everything(self):
        self.assertEqual(self.broken("", HEADER.replace("ABI_VERSION 0", "ABI_VERSION 1").replace("= 3", "= 4")), [])

    def test_the_real_header_is_understood(self):
        abi, constants = compatible.numbers((ROOT / compatible.HEADER).read_text())
        self.assertEqual((abi, constants["QUORLOCK_OK"]), ("0", "0"))
        self.assertGreater(len(constants), 30)


class Gather(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def package(self, where, name, files):
        place = self.folder / "artifacts" / where
        place.mkdir(parents=True, exist_ok=True)
        with tarfile.open(place / name, "w:gz") as package:
            for path, content in files.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size = len(content)
                package.addfile(entry, io.BytesIO(content))

    def gathered(self):
        gather.gather(self.folder / "artifacts", self.folder / "out")
        return self.folder / "out"

    def test_prebuilds_of_all_machines_are_in_one_package(self):
        self.package("linux", "quorlock-1.0.0.tgz", {"dist/index.js": b"same", "prebuilds/linux/q.node": b"l"})
        self.package("macos", "quorlock-1.0.0.tgz", {"dist/index.js": b"same", "prebuilds/darwin/q.node": b"d"})
        (self.folder / "artifacts/linux/quorlock-1.0.0-cp311-abi3-linux.whl").write_text("w")
        (self.folder / "artifacts/linux/quorlock-1.0.0.crate").write_text("c")
        (self.folder / "artifacts/linux/quorlock-c-1.0.0-x.tar.gz").write_text("c")
        out = self.gathered()
        with tarfile.open(out / "npm/quorlock-1.0.0.tgz") as package:
            self.assertEqual(package.getnames(), [f"package/{name}" for name in
                                                  ("dist/index.js", "prebuilds/darwin/q.node", "prebuilds/linux/q.node")])
        names = {folder: [file.name for file in (out / folder).iterdir()] for folder in ("pypi", "crates", "release")}
        self.assertEqual(names, {"pypi": ["quorlock-1.0.0-cp311-abi3-linux.whl"], "crates": ["quorlock-1.0.0.crate"],
                                 "release": ["quorlock-c-1.0.0-x.tar.gz"]})
        self.assertEqual(len((out / "SHA256SUMS").read_text().splitlines()), 3)

    def test_each_file_has_a_sum_by_which_the_next_job_knows_it(self):
        self.package("linux", "quorlock-1.0.0.tgz", {"dist/index.js": b"same"})
        (self.folder / "artifacts/linux/quorlock-1.0.0.crate").write_text("c")
        out = self.gathered()
        check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS.here"]
        self.assertEqual(subprocess.run(check, cwd=out).returncode, 0)
        (out / "crates/quorlock-1.0.0.crate").write_text("d")
        self.assertEqual(subprocess.run(check, cwd=out, capture_output=True).returncode, 1)

    def test_a_crate_that_is_packed_again_is_what_was_tested(self):
        files = {"Cargo.toml": b"[package]", "src/lib.rs": b"fn f() {}"}
        noted = files | {".cargo_vcs_info.json": b"{}"}
        self.package("tested", "quorlock-1.0.0.crate", files)
        for packed, found in ((noted, []), (files | {"src/lib.rs": b"fn g() {}"}, ["package/src/lib.rs differs"]),
                              (files | {"build.rs": b""}, ["package/build.rs differs"])):
            self.package("packed", "quorlock-1.0.0.crate", packed)
            folders = [self.folder / "artifacts" / name for name in ("tested", "packed")]
            self.assertEqual(same.different(*folders), found)
        self.package("packed", "other-1.0.0.crate", files)
        self.assertIn("other-1.0.0.crate is in one of both alone", same.different(*folders))
        self.assertTrue(same.different(self.folder / "out", folders[1]), "nothing was tested")

    def test_two_that_differ_are_no_one_package(self):
        self.package("linux", "quorlock-1.0.0.tgz", {"dist/index.js": b"one"})
        self.package("macos", "quorlock-1.0.0.tgz", {"dist/index.js": b"another"})
        with self.assertRaisesRegex(SystemExit, "dist/index.js is not the same"):
            self.gathered()


class Materials(unittest.TestCase):
    def test_a_bill_names_what_is_linked_as_it_is_locked(self):
        lock = {"package": [{"name": "ours", "version": "1.0.0"}, {"name": "a", "version": "2.0.0", "checksum": "s"}]}
        a = {"name": "a", "version": "2.0.0", "hashes": [{"alg": "SHA-256", "content": "s"}], "licenses": [{"expression": "MIT"}]}
        linked = {("ours", "1.0.0"), ("a", "2.0.0")}
        for components, found in (([a], []), ([], ["a 2.0.0 is linked, and not named"]), ([a | {"licenses": []}], ["a 2.0.0 has no licence"]),
                                  ([a | {"hashes": []}], ["a 2.0.0 has another checksum than is locked"]),
                                  ([a, a | {"version": "3.0.0"}], ["a 3.0.0 is not locked"])):
            bom = {"metadata": {"component": {"name": "ours", "version": "1.0.0"}}, "components": components}
            self.assertEqual(materials.wrong(bom, lock, linked), found)


if __name__ == "__main__":
    unittest.main()
