"""The programs of docs/how-to/jobs.md: each as two hosts at once, with a shorter time between the runs; one of them runs the job."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from programs import ROOT, text

sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage  # noqa: E402

PAGE = text("docs/how-to/jobs.md")
PYTHON = sys.executable
# The hour of the page, in the units of both languages, becomes this many seconds.
SECONDS = 3


def program(file):
    [body] = re.findall(rf"<!-- block: file={re.escape(file)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return body.replace("3_600_000", str(1000 * SECONDS)).replace("3600", str(SECONDS))


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = cls.enterClassContext(Stage(3))

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=ROOT / "target")))

    def hosts(self, file, command, ends=False, **environment):
        """Starts the program on two hosts; gives how often the job ran: within one time, or in about three."""
        told = {**os.environ, "QUORLOCK_NODES": ",".join(self.stage.urls()), "PYTHONUNBUFFERED": "1"}
        hosts = []
        for number in (1, 2):
            own = {key: value.format(number) for key, value in environment.items()}
            # A folder for each: Celery's beat keeps its schedule where it runs.
            path = self.folder / str(number) / file
            path.parent.mkdir()
            path.write_text(program(file))
            hosts.append(subprocess.Popen([*command, str(path)] if ends or command[-1] != "-B" else command, cwd=path.parent,
                                          env={**told, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        try:
            if not ends:
                time.sleep(3.6 * SECONDS)
                for host in hosts:
                    host.terminate()
            said = [host.communicate(timeout=30)[0] for host in hosts]
        finally:
            for host in hosts:
                host.kill()
                host.wait()
        ran = sum(words.count("report sent") for words in said)
        return ran, "\n".join(said)

    def runs_once(self, *arguments, **keywords):
        ran, said = self.hosts(*arguments, ends=True, **keywords)
        self.assertEqual(ran, 1, said)

    def runs_each_time(self, *arguments, **keywords):
        ran, said = self.hosts(*arguments, **keywords)
        # Two hosts would do it twice as often.
        self.assertTrue(1 <= ran <= 4, said)

    def node(self, file):
        """Node finds packages beside the program and above it."""
        modules = self.folder / "node_modules"
        modules.mkdir()
        (modules / "quorlock").symlink_to(ROOT / "node")
        others = ROOT / "tests" / "node" / "node_modules"
        for package in others.iterdir():
            if not package.name.startswith("."):
                (modules / package.name).symlink_to(package)
        return file, ["node"]

    def test_cron(self):
        self.runs_once("cron.py", [PYTHON])

    def test_cron_in_node(self):
        self.runs_once(*self.node("cron.mjs"))

    def test_celery_beat(self):
        command = [PYTHON, "-m", "celery", "-A", "celery_jobs", "worker", "-P", "solo", "-l", "WARNING", "-B"]
        self.runs_each_time("celery_jobs.py", command, BROKER=self.stage.urls()[0] + "/{}")

    def test_apscheduler(self):
        self.runs_each_time("apscheduler_jobs.py", [PYTHON])

    def test_bullmq(self):
        broker = f"{self.stage.urls()[0]}/1"
        self.runs_each_time(*self.node("bullmq.mjs"), BROKER=broker, REGION="region-{}")

    def test_nest(self):
        self.runs_each_time(*self.node("nest.mjs"))


if __name__ == "__main__":
    unittest.main()
