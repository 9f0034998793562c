"""The pages of the C and C++ interfaces, from the comments of their headers."""

import re

# A comment and what it stands above: to the `;` or `{` that ends that, or for a macro to the end of its line.
ITEM = re.compile(r"^( *)/\*\*(?!\s*\* @file)((?:(?!\*/).)*)\*/\s*\n(#define [^\n]*| *\w+ = \w+,|(?! *#)[^;{]*?[;{])", re.MULTILINE | re.DOTALL)
CLASS = re.compile(r"^(?:template <[^{]*?>\s+)?(?:class|struct)\s+(?:\[\[nodiscard\]\]\s+)?(\w+)(?:\s+final)?(?:\s*:[^{]*)?\s*\{$")


def words(comment):
    """A comment without its stars, each paragraph and item of a list on a line of its own; names of C as code."""
    lines = [re.sub(r"^ *\* ?", "", line).rstrip() for line in comment.strip("\n").splitlines()]
    text = "\n".join(line.strip() if not line.startswith("    ") else line for line in lines).strip()
    text = re.sub(r"(?<![`\w])#(QUORLOCK_\w+)", r"`\1`", text)
    text = re.sub(r"(?<![`\w:])(quorlock_\w+\(\))", r"`\1`", text)
    return re.sub(r"(?<!\n)\n(?![\n ]|- )", " ", text).replace("<", "&lt;")


def items(header):
    for found in ITEM.finditer(header):
        declaration = re.sub(r"\n" + found[1], "\n", found[3]).strip()
        yield len(found[1]), words(found[2]), re.sub(r"\s*\{$", "", declaration)


def c_page(header):
    """Types, functions and constants of quorlock.h, in its order."""
    about = words(re.search(r"/\*\*\n \* @file quorlock\.h\n(.*?)\*/", header, re.DOTALL)[1]).partition("Conventions")
    parts = {"Functions": "", "Types": "", "Constants": ""}
    for _, comment, declaration in items(header):
        if declaration.startswith("#define"):
            name, kind, shown = declaration.split()[1], "Constants", declaration
        elif callback := re.search(r"\(\*(quorlock_\w+)\)", declaration):
            name, kind, shown = callback[1], "Types", declaration
        elif function := re.match(r"[\w\s*]*?\b(quorlock_\w+)\(", declaration):
            name, kind, shown = function[1], "Functions", declaration
        elif struct := re.match(r"typedef struct (quorlock_\w+)", declaration):
            name, kind, shown = struct[1], "Types", f"typedef struct {struct[1]} {struct[1]};"
        else:  # a member of the struct before
            parts["Types"] += f"- `{declaration.rstrip(';,{ ')}`: {' '.join(comment.split())}\n\n"
            continue
        parts[kind] += f"### {name}\n\n```c\n{shown}\n```\n\n{comment}\n\n"
    return ("# C: quorlock.h\n\nA distributed lock over independent Redis or Valkey servers, for C11 and later. "
            "[The tutorial](../tutorial/first-lock.md) has a whole program.\n\n## Conventions\n\n" + about[2].partition("Made from")[0].partition(":")[2].strip()
            + "\n\n## Event loops\n\nWhat was started with a `quorlock_queue_t` is called back by the loop that watches the queue's descriptor. "
            "The sources have a program for epoll and one for libuv: `ffi-c/examples/epoll.c`, `ffi-c/examples/libuv.c`.\n\n"
            + "".join(f"## {kind}\n\n{text}" for kind, text in parts.items()))


def cpp_page(header):
    """The classes of quorlock.hpp with what is said of their members, in its order."""
    text = ("# C++: quorlock.hpp\n\nOver [the C interface](c.md), header only, for C++17, with more for C++20; in the namespace `quorlock`. Errors are thrown: "
            "[the kinds](errors.md). [A C++ service](../how-to/cpp-service.md) shows it at work.\n\n")
    hidden = [(found.start(), found.end()) for found in re.finditer(r"^namespace detail \{.*?^\}  // namespace detail", header,
                                                                   re.MULTILINE | re.DOTALL)]
    for found in ITEM.finditer(header):
        if any(begin <= found.start() < end for begin, end in hidden):
            continue
        declaration = re.sub(r"\n" + found[1], "\n", found[3]).strip()
        comment = words(found[2])
        if heading := CLASS.match(declaration):
            text += f"## {heading[1]}\n\n{comment}\n\n"
        elif found[1] and "(" in declaration:
            text += f"```cpp\n{without_body(declaration)};\n```\n\n{comment}\n\n"
        elif found[1]:
            text += f"- `{declaration.rstrip(';,{ ')}`: {' '.join(comment.split())}\n\n"
    return text


def without_body(declaration):
    """A member without its body and what it initialises."""
    declaration = re.sub(r"\s*\{$|;$", "", declaration).strip()
    return re.sub(r"\)\s*:\s*\w+_?\(.*$", ")", declaration, flags=re.DOTALL)
