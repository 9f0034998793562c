"""How a page's blocks are understood."""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from blocks import Wrong, agrees, blocks  # noqa: E402

PAGE = """\
# A page

<!-- block: file=a.py -->
```python
print(1)
```

=== "Node"

    <!-- hidden
    const a = 1;
    -->
    <!-- block: fails=3 continues -->
    ```js
    if (a)
      console.log(a);
    ```

````text
```
````
"""


class Blocks(unittest.TestCase):
    def test_what_a_page_has(self):
        python, node, text = blocks("p.md", PAGE)
        self.assertEqual((python.language, python.words, python.text), ("python", {"file": "a.py"}, "print(1)\n"))
        self.assertEqual((node.language, node.words, str(node)), ("js", {"fails": "3", "continues": ""}, "p.md:14"))
        self.assertEqual((node.hidden, node.text), ("const a = 1;\n", "if (a)\n  console.log(a);\n"))
        self.assertEqual((text.language, text.text), ("text", "```\n"))

    def test_hidden_lines_stand_around_a_block(self):
        [block] = blocks("p.md", "<!-- hidden\nfn main() {\n…\n}\n-->\n```rust\nlet a = 1;\n```\n")
        self.assertEqual(block.whole(), "fn main() {\nlet a = 1;\n}\n")
        [_, node, _] = blocks("p.md", PAGE)
        self.assertEqual(node.whole(), "const a = 1;\nif (a)\n  console.log(a);\n")

    def test_a_comment_waits_for_the_block_of_its_language(self):
        page = """\
<!-- hidden js
const a = 1;
-->
<!-- block: js check -->
=== "Python"

    ```python
    a = 1
    ```

=== "Node"

    ```js
    a;
    ```
"""
        python, node = blocks("p.md", page)
        self.assertEqual((python.hidden, python.words), ("", {}))
        self.assertEqual((node.whole(), node.words), ("const a = 1;\na;\n", {"check": ""}))

    def test_what_is_wrong_is_told_with_its_line(self):
        for page, why in {
            "```\nx\n```\n": "p.md:1: the block does not say its language",
            "\n```python\nx\n": "p.md:2: the block has no end",
            "<!-- block: run -->\n```python\n```\n": "p.md:1: there is no `run`",
            "<!-- block: skip -->\n```python\n```\n": "p.md:1: `skip` says why",
            "<!-- block: check -->\n\nWords.\n": "p.md:1: the comment is not followed by a block",
            "<!-- block: js check -->\n```python\n```\n": "p.md:1: the comment is not followed by a block",
            "<!-- hidden\nx\n-->\n": "p.md:1: the comment is not followed by a block",
        }.items():
            with self.subTest(page), self.assertRaisesRegex(Wrong, why):
                blocks("p.md", page)

    def test_what_was_printed(self):
        for wanted, printed, good in [
            ("held\n", "held", True),
            ("held for … s\n", "held for 9.9 s\n", True),
            ("a\n…\nc", "a\nb\nb\nc\n", True),
            ("a.c", "abc", False),
            ("held", "not held", False),
        ]:
            self.assertEqual(agrees(wanted, printed), good, wanted)


if __name__ == "__main__":
    unittest.main()
