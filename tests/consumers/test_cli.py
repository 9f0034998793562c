"""The program `quorlock` as the Python package brings it: docs/reference/command.md has every command and option of it, docs/cli.schema.json is
what it prints for programs, and its page in the wheel is that of this command line."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import quorlock
from prometheus_client.parser import text_string_to_metric_families

from programs import ROOT, text

sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(sys.executable), "quorlock")
PAGE = text("docs/reference/command.md")
SCHEMA = json.loads(text("docs/cli.schema.json"))
MAN = "py/quorlock.data/data/share/man/man1/quorlock.1"
# What every command that speaks with nodes has, and its own section.
OF_NODES = "Which nodes"


def run(*words, nodes="memory://cli", code=0, **environment):
    told = {**os.environ, "QUORLOCK_NODES": nodes, "COLUMNS": "100", **environment}
    done = subprocess.run([PROGRAM, *words], env=told, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}, {done.stdout} {done.stderr}")
    return done


def commands():
    listed = re.search(r"^Commands:\n(.*?)\n\n", run("--help").stdout, re.MULTILINE | re.DOTALL)[1]
    return [name for name in re.findall(r"^  (\w+) ", listed, re.MULTILINE) if name != "help"]


def section(heading):
    found = re.search(rf"^## (`?{heading}`?|`{heading}` and .*|`\w+` and `{heading}`)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return found[2]


class Page(unittest.TestCase):
    def test_it_has_every_command_and_option(self):
        self.assertGreater(len(commands()), 10)
        for command in commands():
            help_text = run(command, "--help").stdout
            words = section(command)
            own, _, nodes = help_text.partition("The set of nodes:")
            for option in re.findall(r"^ +(?:-\w, )?(--[\w-]+)", own, re.MULTILINE):
                if option not in ("--help", "--version"):
                    self.assertIn(option, words, command)
            for option in re.findall(r"^ +(--[\w-]+)", nodes, re.MULTILINE):
                self.assertIn(option, section(OF_NODES), command)
            for name in re.findall(r"\[env:\s+(\w+)\]", nodes):
                self.assertIn(name.replace("QUORLOCK_CERT", "_CERT").replace("QUORLOCK_KEY", "_KEY"), section(OF_NODES))

    def test_it_has_no_other_option(self):
        known = {option for command in commands() for option in re.findall(r"--[\w-]+", run(command, "--help").stdout)}
        said = set(re.findall(r"`(?:-\w`, `)?(--[\w-]+)", PAGE))
        self.assertLessEqual(said, known)

    def test_it_has_every_exit_code(self):
        said = set(re.findall(r"\b(\d+)  ", run("run", "--help").stdout.partition("Exit code:")[2]))
        told = set(re.findall(r"^\| ([\d, ]+) \|", section("run"), re.MULTILINE))
        self.assertEqual({code for codes in told for code in codes.split(", ")}, said)

    def test_the_page_in_the_wheel_is_of_this_command_line(self):
        self.assertEqual(text(MAN), run("man").stdout, f"make it anew: quorlock man > {MAN}")


class Objects(unittest.TestCase):
    """What is printed for programs is as the schema says."""

    @classmethod
    def setUpClass(cls):
        cls.stage = cls.enterClassContext(Stage(3))
        cls.nodes = ",".join(cls.stage.urls())
        cls.client = quorlock.Client(cls.stage.urls(), label="web-1:1")
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def objects(self, command, said):
        validator = jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{command}"})
        found = [json.loads(line) for line in said.splitlines()]
        self.assertTrue(found)
        for one in found:
            validator.validate(one)
            # No key that the schema does not tell of.
            self.known(one, SCHEMA["$defs"][command])
        return found

    def known(self, value, schema):
        if "$ref" in schema:
            schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
        if "oneOf" in schema:
            def fits(one):
                return jsonschema.Draft202012Validator({**SCHEMA, **one}).is_valid(value)
            schema = next(one for one in schema["oneOf"] if fits(one))
            return self.known(value, schema)
        if isinstance(value, dict) and "properties" in schema:
            self.assertEqual(set(value), set(schema["properties"]))
            for key, inner in value.items():
                self.known(inner, schema["properties"][key])
        for one in value if isinstance(value, list) else []:
            self.known(one, schema.get("items", {}))
        return None

    def of(self, command, *words, code=0):
        return self.objects(command, run(command, "--json", *words, nodes=self.nodes, code=code).stdout)

    def test_those_that_look(self):
        self.of("init")
        with self.client.lock("held") as lease:
            [held] = self.of("inspect", "held")
            self.assertEqual((held["holder"]["label"], held["holder"]["fence"]), ("web-1:1", lease.fence))
            self.of("inspect", "held", "free", code=3)
            [listed] = self.of("list")
            self.assertEqual([lock["name"] for lock in listed["locks"]], ["held"])
            [found] = self.of("doctor", "held")
            self.assertEqual((found["health"], found["lock"]["verdict"]), ("works", "held"))
        self.of("watch", "--until-free", "held")
        self.of("release", "--force", "held", code=3)

    def test_a_doctor_with_findings(self):
        with Stage(2) as stage:
            stage.kill(2)
            said = run("doctor", "--json", nodes=",".join(stage.urls()), code=69).stdout
            [found] = self.objects("doctor", said)
            ids = {finding["id"] for node in found["nodes"] for finding in node["findings"]}
            self.assertIn("QD01", ids)

    def test_run(self):
        def events(*words, code):
            said = run("run", "--json", "-", *words, nodes=self.nodes, code=code).stdout
            return [event["event"] for event in self.objects("run", said)]

        self.assertEqual(events("a", "--", "true", code=0), ["acquired", "started", "exited", "ended"])
        self.assertEqual(events("a", "--", "/nowhere/at/all", code=127), ["acquired", "failed"])
        with self.client.lock("a"):
            self.assertEqual(events("-n", "a", "--", "true", code=75), ["held"])
            self.assertEqual(events("-w", "1500ms", "a", "--", "true", code=75), ["waiting", "held"])

    def test_a_run_that_lacks_votes(self):
        with Stage(3) as stage:
            stage.kill(2, 3)
            words = ["run", "--json", "-", "-w", "1500ms", "a", "--", "true"]
            said = run(*words, nodes=",".join(stage.urls()), code=69).stdout
            [waiting, failed] = self.objects("run", said)
            self.assertEqual((waiting["votes"], len(waiting["nodes"]), failed["event"]), (1, 2, "failed"))

    def test_the_metrics_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "job.prom"
            run("run", "--metrics", str(file), "job", "--", "true", nodes=self.nodes)
            families = {family.name: family for family in text_string_to_metric_families(file.read_text(encoding="utf-8"))}
        page = text("docs/operations/metrics.md")
        for name, family in families.items():
            name += "_total" * (family.type == "counter")
            labels = ", ".join(f"`{label}`" for label in sorted({label for sample in family.samples for label in sample.labels}))
            self.assertIn(f"| `{name}` | {family.type} | {labels} |", page)
        said = re.search(r"`outcome` of a run: (.*?)\. Of a job", page, re.DOTALL)[1]
        outcomes = {sample.labels["outcome"]: sample.value for sample in families["quorlock_run"].samples}
        self.assertEqual(set(re.findall(r"`(\w+)`", said)), set(outcomes))
        self.assertEqual(outcomes["ended"], 1)

    def test_a_run_that_loses_its_lock(self):
        script = f"{PROGRAM} release --force -y lost >&2; exec tail -f /dev/null"
        done = run("run", "--json", "-", "--ttl", "1s", "lost", "--", "sh", "-c", script, nodes=self.nodes, code=76)
        told = self.objects("run", done.stdout)
        self.assertEqual([event["event"] for event in told], ["acquired", "started", "ending", "exited", "lost"])
        self.assertIn("taken away by force", {node["said"] for node in told[-1]["nodes"]})

    def test_a_run_that_is_interrupted(self):
        with self.client.lock("wanted"):
            told = {**os.environ, "QUORLOCK_NODES": self.nodes}
            words = [PROGRAM, "run", "--json", "-", "wanted", "--", "true"]
            with subprocess.Popen(words, env=told, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as waits:
                first = waits.stdout.readline()
                waits.terminate()
                rest = waits.stdout.read()
            self.assertEqual(waits.returncode, 143)
            self.assertEqual([event["event"] for event in self.objects("run", first + rest)], ["waiting", "interrupted"])


class Package(unittest.TestCase):
    def test_the_program_has_the_version_of_the_package(self):
        self.assertEqual(run("--version").stdout, f"quorlock {quorlock.__version__}\n")

    def test_python_m_is_the_program(self):
        with Stage(1) as stage:
            told = {**os.environ, "QUORLOCK_NODES": ",".join(stage.urls())}
            words = [sys.executable, "-m", "quorlock", "run", "a", "--", "sh", "-c", "exit 9"]
            done = subprocess.run(words, env=told, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (9, ""))

    def test_without_the_program_there_is_a_hint(self):
        with tempfile.TemporaryDirectory() as folder:
            # The package alone, as its sources without a wheel are.
            package = pathlib.Path(quorlock.__file__).parent
            os.symlink(package, os.path.join(folder, "quorlock"))
            words = [sys.executable, "-S", "-m", "quorlock", "doctor"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 127)
        self.assertIn("cargo install quorlock-cli", done.stderr)


if __name__ == "__main__":
    unittest.main()
