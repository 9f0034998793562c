"""The blocks of code on a page, and what is to be done with each.

A block says its language behind its fence; `text` is no code but a form, or what something prints. What else is to be known stands in a comment of its own before it, which no reader
sees:

    <!-- block: file=jobs.py -->              it is a file for the blocks after it, and is not run by itself
    <!-- block: check -->                     it is compiled, or parsed, and not run
    <!-- block: continues -->                 it comes behind what the blocks of its language before it say
    <!-- block: fails=3 -->                   it ends with that status
    <!-- block: out -->                       what the block before it prints; `…` stands for anything
    <!-- block: skip=why-it-is-not-run -->    it is not run, and counted
    <!-- hidden                               lines that come before those of the block, and behind them where one is `…` alone
    import os
    -->

Where languages stand in tabs, a comment is before the tabs, for a page that is indented shows it; it then begins with the
language of the block that it belongs to, the next of that language: `<!-- block: js check -->`, `<!-- hidden js`.
"""

import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
DIRECTIVE = re.compile(r"^ *<!-- block: (.*) -->$")
HIDDEN = re.compile(r"^ *<!-- hidden(?: (\w+))?$")
LANGUAGES = {"c", "cpp", "ini", "js", "json", "python", "rust", "sh", "sql", "toml", "yaml"}
WORDS = {"file", "check", "continues", "fails", "out", "skip"}


class Wrong(Exception):
    """A page that cannot be understood; the text says where and why."""


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    words: dict = field(default_factory=dict)
    hidden: str = ""

    def __str__(self):
        return f"{self.page}:{self.line}"

    def whole(self):
        """The block, with the lines that belong to it and that nobody sees."""
        before, middle, after = self.hidden.partition("…\n")
        return before + self.text + after if middle else self.hidden + self.text


@dataclass
class Comment:
    """What is to be known of a block that has not come yet."""

    line: int
    words: dict = field(default_factory=dict)
    hidden: str = ""


def directive(page, line, text):
    """The language that a comment names, or nothing, and its words."""
    words, language = {}, None
    for word in text.split():
        name, _, value = word.partition("=")
        if name in LANGUAGES and not words and not language:
            language = name
            continue
        if name not in WORDS:
            raise Wrong(f"{page}:{line}: there is no `{name}`; there are {', '.join(sorted(WORDS))}")
        words[name] = value
    if not words.get("skip", "why"):
        raise Wrong(f"{page}:{line}: `skip` says why: skip=needs-a-broker")
    return language, words


def blocks(page, text):
    """The blocks of a page, in order. Fails where one has no language, or a comment belongs to no block."""
    found, lines, at = [], text.splitlines(), 0
    # By the language that they name; by nothing those of the block that comes next.
    comments = {}
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if match := DIRECTIVE.match(line):
            language, words = directive(page, number, match[1])
            comments.setdefault(language, Comment(number)).words = words
        elif match := HIDDEN.match(line):
            begin = at
            while at < len(lines) and lines[at].strip() != "-->":
                at += 1
            hidden = without(lines[begin:at], len(line) - len(line.lstrip()))
            comments.setdefault(match[1], Comment(number)).hidden = hidden
            at += 1
        elif match := FENCE.match(line):
            indent, fence, info = len(match[1]), match[2], match[3].split()
            begin = at
            while at < len(lines) and not re.match(rf"^ *{re.escape(fence)} *$", lines[at]):
                at += 1
            if at == len(lines):
                raise Wrong(f"{page}:{number}: the block has no end")
            at += 1
            if not info:
                raise Wrong(f"{page}:{number}: the block does not say its language")
            known = comments.pop(None, None) or comments.pop(info[0], None) or Comment(number)
            found.append(Block(page, number, info[0], without(lines[begin:at - 1], indent), known.words, known.hidden))
        elif line.strip() and None in comments:
            raise Wrong(f"{page}:{comments[None].line}: the comment is not followed by a block")
    for comment in comments.values():
        raise Wrong(f"{page}:{comment.line}: the comment is not followed by a block")
    return found


def without(lines, indent):
    """The lines, without what all of them are indented by where they stand."""
    return "".join(f"{line[indent:] if not line[:indent].strip() else line}\n" for line in lines)


def agrees(wanted, printed):
    """Whether what was printed is what the page shows, in which `…` stands for anything."""
    parts = [re.escape(part) for part in wanted.strip().split("…")]
    return re.fullmatch(".*".join(parts), printed.strip(), re.DOTALL) is not None
