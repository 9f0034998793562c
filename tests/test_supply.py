#!/usr/bin/env python3
"""What others have made, as far as it can be known without a network: what is locked has a checksum and comes from the one
registry of its kind, its licence is one of deny.toml, programs of CI are named by their commits, and the jobs that may
publish build nothing. Advisories and signatures: .github/workflows/supply.yml.
"""

import json
import pathlib
import re
import subprocess
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
DENY = tomllib.loads((ROOT / "deny.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Each job that may publish, and all of its rights.
PUBLISHES = {
    "attest": {"id-token", "attestations"},
    "pypi": {"id-token"},
    "npm": {"id-token"},
    "crates": {"contents: read", "id-token"},
    "page": {"contents"},
}
# Each has its job, and no other.
REGISTRIES = {"pypi": "gh-action-pypi-publish", "npm": "npm publish", "crates": "cargo publish", "page": "gh release"}


def tracked(pattern):
    listed = subprocess.check_output(["git", "ls-files", "-z", pattern], cwd=ROOT, text=True)
    return [ROOT / name for name in listed.split("\0") if name]


def permitted(expression, allowed):
    """Whether one way to read an SPDX expression needs these licences alone."""
    words = re.findall(r"\(|\)|[^\s()]+(?: WITH [^\s()]+)?", expression.replace("/", " OR "))
    given = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    return bool(words) and bool(eval(" ".join(given.get(word) or str(word in allowed) for word in words)))


def jobs(workflow):
    """Each job's lines, by its name."""
    text = workflow.read_text().split("\njobs:\n", 1)[1]
    parts = re.split(r"^  ([a-z-]+):\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def rights(job):
    """What a job may: a right to write by its name, one to read as it stands."""
    found = re.search(r"^    permissions:\n((?:      .*\n)+)", job, re.MULTILINE)
    lines = [line.strip() for line in (found[1] if found else "").splitlines() if not line.strip().startswith("#")]
    return {line.removesuffix(": write") for line in lines}


class Runtimes(unittest.TestCase):
    def test_a_release_is_tried_in_each_python_and_node_that_is_supported(self):
        [release] = [path for path in WORKFLOWS if path.stem == "release"]
        tried = re.findall(r'- \{ python: "(3\.\d+)", node: "(\d+)" \}', jobs(release)["runtimes"])
        pythons, nodes = zip(*tried)
        classifiers = tomllib.loads((ROOT / "py/pyproject.toml").read_text())["project"]["classifiers"]
        said = [words.rpartition(" ")[2] for words in classifiers if re.search(r":: 3\.\d+$", words)]
        self.assertEqual(said, list(pythons))
        self.assertEqual(list(nodes), ["20", "22", "24", "26"])
        self.assertIn("runtimes", re.search(r"needs: \[(.*)\]", jobs(release)["gather"])[1])


class Locked(unittest.TestCase):
    def test_each_crate_has_a_checksum_and_is_of_one_registry(self):
        registry = {f"registry+{url}" for url in DENY["sources"]["allow-registry"]}
        self.assertEqual((len(registry), DENY["sources"]["allow-git"]), (1, []))
        for word in ("unknown-registry", "unknown-git"):
            self.assertEqual(DENY["sources"][word], "deny")
        files = tracked("*Cargo.lock")
        self.assertGreaterEqual(len(files), 3)
        for file in files:
            others = [package for package in tomllib.loads(file.read_text())["package"] if "source" in package]
            self.assertGreater(len(others), 50)
            for package in others:
                self.assertIn(package["source"], registry, f"{file}: {package['name']}")
                self.assertRegex(package["checksum"], r"^[0-9a-f]{64}$", f"{file}: {package['name']}")

    def test_crates_without_a_source_are_ours(self):
        ours = {tomllib.loads(file.read_text()).get("package", {}).get("name") for file in tracked("*Cargo.toml")}
        for file in tracked("*Cargo.lock"):
            for package in tomllib.loads(file.read_text())["package"]:
                self.assertTrue("source" in package or package["name"] in ours, f"{file}: {package['name']}")

    def test_each_package_of_npm_has_a_checksum_and_no_source_of_its_own(self):
        files = tracked("*package-lock.json")
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            packages = json.loads(file.read_text())["packages"]
            for name, package in packages.items():
                if not name or package.get("link"):
                    continue
                self.assertRegex(package.get("integrity", ""), r"^sha512-[A-Za-z0-9+/]{86}==$", f"{file}: {name}")
                # The registry is npm's own, unless the user has set another.
                self.assertNotIn("resolved", package, f"{file}: {name}")

    def test_what_an_addon_is_made_with_has_a_licence_that_is_permitted(self):
        packages = json.loads((ROOT / "node" / "package-lock.json").read_text())["packages"]
        for name, package in packages.items():
            self.assertTrue(permitted(package.get("license", ""), DENY["licenses"]["allow"]), name)

    def test_each_package_of_python_is_of_one_version(self):
        files = tracked("*requirements*.txt")
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            for line in file.read_text().splitlines():
                line = line.partition("#")[0].strip()
                if line:
                    self.assertRegex(line, r"^[A-Za-z0-9_.\[\],-]+==[0-9][^ *]*(?: ?;.*)?$", f"{file}: {line}")


class Licences(unittest.TestCase):
    def test_each_crate_has_one_that_is_permitted(self):
        command = ["cargo", "metadata", "--locked", "--format-version", "1"]
        # Without a network, if all are here: of those for other systems none may have been needed yet.
        tries = (subprocess.run([*command, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for more in (["--offline"], []))
        done = next((one for one in tries if one.returncode == 0), None)
        self.assertTrue(done, "cargo metadata fails")
        told = json.loads(done.stdout)
        self.assertGreater(len(told["packages"]), 100)
        used = set()
        for package in told["packages"]:
            licence = package["license"] or ""
            self.assertTrue(permitted(licence, DENY["licenses"]["allow"]), f"{package['name']}: {licence!r}")
            used |= {each for each in DENY["licenses"]["allow"] if each in licence}
        self.assertEqual(set(DENY["licenses"]["allow"]) - used, set(), "permitted, and nobody's")

    def test_expressions_are_read(self):
        for expression, good in [("MIT", True), ("MIT/Apache-2.0", True), ("GPL-3.0 OR MIT", True), ("GPL-3.0", False), ("", False),
                                 ("GPL-3.0 AND MIT", False), ("(MIT OR GPL-3.0) AND ISC", True), ("A WITH B OR MIT", True),
                                 ("Apache-2.0 WITH LLVM-exception", True), ("MIT WITH other", False)]:
            allowed = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"]
            self.assertEqual(permitted(expression, allowed), good, expression)


class Workflows(unittest.TestCase):
    def test_each_program_of_others_is_named_by_its_commit(self):
        count = 0
        for workflow in WORKFLOWS:
            for used in re.findall(r"uses: (.*)", workflow.read_text()):
                self.assertRegex(used, r"^[\w./-]+@[0-9a-f]{40} # v[0-9.]+$", workflow.name)
                count += 1
        self.assertGreater(count, 10)

    def test_nothing_may_more_than_its_job_says(self):
        for workflow in WORKFLOWS:
            self.assertRegex(workflow.read_text(), r"(?m)^permissions: \{\}$", workflow.name)

    def test_a_job_that_may_publish_builds_nothing_and_has_one_registry(self):
        every = jobs(ROOT / ".github" / "workflows" / "release.yml")
        releases = {name for name, job in every.items() if "environment: release" in job}
        self.assertEqual(releases, set(PUBLISHES))
        for name, job in every.items():
            if name not in PUBLISHES:
                self.assertEqual(rights(job), {"contents: read"}, name)
                continue
            self.assertEqual(rights(job), PUBLISHES[name], name)
            # What others have written is neither built, installed nor run.
            builds = re.findall(r"(?m)^.*\b(?:make|pip|npm (?:ci|i|install|run|exec)|npx|cargo (?:build|test|run|install))\b.*$", job)
            self.assertEqual([line for line in builds if "run:" in line], [], name)
            self.assertIn("sha256sum --check --strict SHA256SUMS.here", job, name)
            self.assertEqual([each for each, word in REGISTRIES.items() if word in job], [name] if name in REGISTRIES else [])
        for line in re.findall(r"cargo (?:publish|package).*", every["crates"]):
            self.assertIn("--no-verify", line)
        self.assertIn("--ignore-scripts", every["npm"])
        self.assertIn("same.py", every["crates"].split("cargo publish")[0])

    def test_what_needs_a_network_is_asked_there(self):
        text = (ROOT / ".github" / "workflows" / "supply.yml").read_text()
        for command in ("cargo deny --locked check advisories", "npm audit signatures", "npm ci --ignore-scripts"):
            self.assertIn(command, text)


if __name__ == "__main__":
    unittest.main()
