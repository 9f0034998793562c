#!/usr/bin/env python3
"""Builds the site, and looks at what was built.

    build.py                by Zensical, into target/site; with the addresses that pages had, and llms.txt
    build.py --check         by Zensical and by mkdocs-material, without a warning; links lead somewhere, pictures have texts, and
                            what is drawn can be told from its ground
    build.py --look          looks at each page in headless Chromium, light and dark, narrow and wide

It needs the packages of requirements.txt, and makes an environment with them in target/site-tools.
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SITE = ROOT / "target" / "site"
TOOLS = ROOT / "target" / "site-tools"
LOOK = ROOT / "target" / "site-look"
# Where the site has what rustdoc makes.
RUST = "reference/rust-api"
# Without its note that it will end, which is no warning of the site.
ENVIRONMENT = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
# Grounds of a page, light and dark, as the theme has them; and how much a text must stand out (WCAG 2, AA).
GROUNDS = {"light": ["#ffffff"], "dark": ["#1e2129", "#121318"]}
TEXT, GRAPHIC = 4.5, 3.0
# What only divides, and tells nothing.
DIVIDES = {"#d0d7de", "#3d444d", "#30363d"}


def tools():
    wanted = (HERE / "requirements.txt").read_text()
    mark = TOOLS / "have.txt"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(TOOLS, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
        subprocess.run([TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"],
                       check=True)
        mark.write_text(wanted)


def built(*command):
    """What a builder said, and whether it built the site without a warning."""
    done = subprocess.run([TOOLS / "bin" / command[0], *map(str, command[1:])], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    said = done.stdout + done.stderr
    return said, done.returncode == 0 and not re.search(r"warning", said, re.IGNORECASE)


class Page(html.parser.HTMLParser):
    """What a page links to, which addresses it has, and its pictures without a text."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places, self.bare = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.places.add(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "img":
            self.links.append(attributes.get("src") or "")
            if not (attributes.get("alt") or "").strip():
                self.bare.append(attributes.get("src"))


def links(site):
    """What is wrong with the links and pictures of a built site."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
             if path.name != "404.html" and "rust-api" not in path.parts}
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name}: the picture {source} has no text" for source in page.bare)
        for link in page.links:
            found = urllib.parse.urlsplit(link)
            if found.scheme or found.netloc:
                if found.scheme not in ("https", "http", "mailto"):
                    yield f"{name}: {link} is no link"
                continue
            if found.path in (".", "") and not found.fragment:
                continue
            target = (path.parent / urllib.parse.unquote(found.path)).resolve() if found.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: {link} leads nowhere"
            elif (place := urllib.parse.unquote(found.fragment)) and target in pages and not place.startswith(("only-", "__")):
                if place not in pages[target].places:
                    yield f"{name}: {link}: there is no such place on that page"


def addresses():
    """Each address that a page had, and that of the page it leads to now."""
    lines = (HERE / "addresses.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def lead_on(site):
    """Has each old address lead to its page, with what stands behind a `#`; tells what is wrong with those addresses."""
    for old, new in addresses():
        if not (site / new / "index.html").exists():
            yield f"{old} leads to {new}, which is no page"
        if (site / old / "index.html").exists():
            yield f"{old} is the address of a page"
        else:
            here = "../" * len(pathlib.PurePath(old).parts) + new + "/"
            (site / old).mkdir(parents=True)
            (site / old / "index.html").write_text(
                f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>This page has moved</title>\n'
                f'<link rel="canonical" href="{here}">\n<meta http-equiv="refresh" content="1; url={here}">\n'
                f'<script>location.replace("{here}" + location.hash)</script>\n<p>This page has moved <a href="{here}">here</a>.</p>\n</html>\n')


def listed():
    """The pages in the order of the menu: its heading or page, how deep it stands, and the file if it is a page."""
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    for depth, title, file in re.findall(r"^( +)- (?:([^:\n]+):)? ?(\S+\.md)?$", menu, re.MULTILINE):
        yield title, len(depth) // 4, file


def for_models():
    """llms.txt: the pages with what each is about, for programs that read a site (llmstxt.org)."""
    settings = (ROOT / "mkdocs.yml").read_text()
    about = re.search(r"^site_description: (.*)$", settings, re.MULTILINE)[1]
    text = f"# Quorlock\n\n> {about}\n"
    for title, depth, file in listed():
        if not file:
            text += f"\n## {title}\n\n" if depth == 0 else ""
            continue
        page = (ROOT / "docs" / file).read_text()
        title = title or re.search(r"^# (.*)$", page, re.MULTILINE)[1]
        address = file.removesuffix(".md").removesuffix("index").rstrip("/")
        text += f"- [{title}]({address + '/' if address else '.'})\n" if depth or address else ""
    return text


def rust(site):
    """The crate's documentation as rustdoc writes it, of that crate alone: what it has of others is found by its search, too."""
    made = ROOT / "target" / "doc"
    shutil.rmtree(made, ignore_errors=True)
    subprocess.run(["cargo", "doc", "--quiet", "--package", "quorlock", "--no-deps", "--locked"], cwd=ROOT, check=True)
    shutil.copytree(made, site / RUST)


def finish(site):
    """What the builder leaves out. Tells what is wrong with it."""
    rust(site)
    (site / "llms.txt").write_text(for_models())
    return list(lead_on(site))


def brightness(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """As WCAG 2 defines it: 1 for the same colour, 21 for black on white."""
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def colours(picture):
    """Each colour of a picture with what it must reach: words more than shapes."""
    for tag, colour in re.findall(r'<(\w+) [^>]*?(?:fill|stroke)="(#[0-9a-f]{6})"', picture):
        if colour not in DIVIDES:
            yield colour, TEXT if tag == "text" else GRAPHIC


def pictures():
    """What in the pictures cannot be told from the page's ground."""
    for path in sorted((ROOT / "docs").rglob("*.svg")):
        scheme = path.stem.rpartition("-")[2]
        for colour, least in sorted(set(colours(path.read_text()))):
            for ground in GROUNDS[scheme]:
                if (reached := contrast(colour, ground)) < least:
                    yield f"{path.relative_to(ROOT)}: {colour} on {ground} has a contrast of {reached:.1f}, and needs {least}"


def check():
    tools()
    failed = passed = 0

    def tell(name, wrong):
        nonlocal failed, passed
        wrong = list(wrong)
        failed, passed = failed + bool(wrong), passed + (not wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {name}", *wrong[:20], sep="\n     ")

    said, good = built("zensical", "build", "--clean", "--strict")
    tell("zensical", [] if good else said.splitlines())
    tell("old addresses", finish(SITE))
    tell("zensical, links and texts", links(SITE))
    with tempfile.TemporaryDirectory() as folder:
        said, good = built("mkdocs", "build", "--strict", "--site-dir", folder)
        tell("mkdocs-material", [] if good else said.splitlines())
        # A link in HTML is from the page's source for the one, and from its address for the other.
        shutil.copytree(SITE / RUST, pathlib.Path(folder) / "reference" / "rust" / "rust-api")
        tell("mkdocs-material, links and texts", links(pathlib.Path(folder)))
    tell("contrast of the pictures", pictures())
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def look():
    tools()
    said, good = built("zensical", "build", "--clean", "--strict")
    if not good:
        sys.exit(said)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", HERE / "look"], check=True)
    return subprocess.run(["node", HERE / "look" / "look.mjs", SITE, LOOK]).returncode


def main():
    if "--check" in sys.argv[1:]:
        return check()
    if "--look" in sys.argv[1:]:
        return look()
    tools()
    said, good = built("zensical", "build", "--clean", "--strict")
    wrong = finish(SITE) if good else []
    print(said.strip(), *wrong, sep="\n")
    return 0 if good and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
