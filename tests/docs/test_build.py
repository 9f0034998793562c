"""What is found wrong with a built site, and how pictures are scaled."""

import json
import pathlib
import re
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import build  # noqa: E402
import headers  # noqa: E402
import pictures  # noqa: E402


class Links(unittest.TestCase):
    def wrong(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder).resolve()
            for name, text in pages.items():
                (site / f"{name}.html").write_text(text)
            return list(build.links(site))

    def test_what_leads_somewhere(self):
        self.assertEqual(self.wrong(a='<h1 id="x"></h1><a href="b.html#y">b</a><a href="#x">x</a><a href="https://h/">h</a>',
                                    b='<p id="y"></p><a href="a.html">a</a>'), [])

    def test_what_leads_nowhere(self):
        self.assertEqual(self.wrong(a='<a href="gone.html">g</a>'), ["a.html: gone.html leads nowhere"])
        self.assertEqual(self.wrong(a='<a href="#gone">g</a>'), ["a.html: #gone: there is no such place on that page"])
        self.assertEqual(self.wrong(a='<a href="javascript:x()">g</a>'), ["a.html: javascript:x() is no link"])

    def test_a_picture_without_a_text(self):
        self.assertEqual(self.wrong(a='<img src="a.html" alt=" ">'), ["a.html: the picture a.html has no text"])


class Colours(unittest.TestCase):
    def test_contrast_is_that_of_the_standard(self):
        self.assertAlmostEqual(build.contrast("#000000", "#ffffff"), 21)
        self.assertAlmostEqual(build.contrast("#777777", "#ffffff"), 4.48, places=2)

    def test_words_must_stand_out_more_than_shapes(self):
        found = dict(build.colours('<text x="1" fill="#777777">a</text><rect fill="#888888"/><line stroke="#d0d7de"/>'))
        self.assertEqual(found, {"#777777": build.TEXT, "#888888": build.GRAPHIC})


class Headers(unittest.TestCase):
    def test_what_the_library_exports_is_on_the_page_of_c(self):
        root = build.ROOT
        page = headers.c_page((root / "include" / "quorlock.h").read_text())
        functions = set(re.findall(r"^### (quorlock_\w+)$", page, re.MULTILINE))
        exported = set(re.findall(r"quorlock_\w+", (root / "ffi-c" / "symbols.txt").read_text()))
        self.assertGreater(len(exported), 100)
        self.assertEqual(exported - functions, set())


class Scale(unittest.TestCase):
    def test_steps_are_round(self):
        for least, step in {0.13: 0.2, 0.3: 0.5, 0.7: 1, 1: 1, 3: 5, 6.5: 10, 120: 200}.items():
            self.assertAlmostEqual(pictures.nice(least), step)


class Kept(unittest.TestCase):
    def test_the_picture_of_the_benefit_shows_what_the_benchmark_has_found(self):
        kept = json.loads((pictures.IMAGES / "benefit.json").read_text())
        self.assertEqual(kept, pictures.record_benefit(), "run `tests/docs/pictures.py --record benefit`")


if __name__ == "__main__":
    unittest.main()
