"""The references of the packages of Python and Node, from their sources and types: each public name, its signature and what its comment says."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "py" / "python" / "quorlock"


def heading(text, depth):
    return f"{'#' * depth} {text}\n\n"


def said(node):
    words = ast.get_docstring(node)
    return f"{words}\n\n" if words else ""


def signature(function, named=()):
    """As it is called: without `self`, and with `…` where an option that is not given has the default of its table. `named`: what stands for the
    variables of types."""
    def settled(text):
        for variable, kind in dict(named).items():
            text = re.sub(rf"\b{variable}\b", kind, text)
        return text

    arguments = settled(ast.unparse(function.args)).replace(" | Unset=UNSET", "=…").replace("=UNSET", "=…")
    arguments = ", ".join(part for part in arguments.split(", ") if part not in ("self", "cls", "/"))
    returns = settled(f" -> {ast.unparse(function.returns)}") if function.returns else ""
    word = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    one_line = f"{word} {function.name}({arguments}){returns}"
    if len(one_line) <= 100:
        return one_line
    lines, deep, part = [], 0, ""
    for letter in arguments:
        deep += (letter in "[(") - (letter in "])")
        if letter == "," and not deep:
            lines, part = [*lines, f"    {part.strip()},"], ""
        else:
            part += letter
    return "\n".join([f"{word} {function.name}(", *lines, f"    {part.strip()},", f"){returns}"])


def is_called(function, name):
    return any(ast.unparse(decorator).split(".")[-1] == name for decorator in function.decorator_list)


class Module:
    """What the package's sources define, by name."""

    def __init__(self, *first):
        self.found = {}
        # What a base says of what says nothing by itself.
        self.said = {}
        for path in [*sorted(PACKAGE.glob("*.py")), *(PACKAGE / name for name in first)]:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    self.found[node.name] = node

    def members(self, kind):
        """Of a class and of those of the package that it is made from: each public one once, the class's own first."""
        seen = {}
        for part in kind.body:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                # Of several ways to call it the first that is written out.
                if not part.name.startswith("_") and part.name not in seen:
                    seen[part.name] = part
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and not part.target.id.startswith("_"):
                seen[part.target.id] = (part, kind.body[kind.body.index(part) + 1:][:1])
        for base in kind.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            # A base of the same name is another module's.
            if (other := self.found.get(ast.unparse(base).split(".")[-1])) not in (None, kind):
                for name, part in self.members(other).items():
                    of_class = seen.setdefault(name, part)
                    if other.name.endswith("Base") and of_class is not part and not isinstance(of_class, tuple):
                        # What both APIs have is said of it once.
                        self.said.setdefault(of_class, said(part))
        return seen

    def constructor(self, kind):
        """What makes it: its own, or that of what it has in common with others, where users call that."""
        for part in kind.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                return part
        for base in kind.bases:
            of = self.found.get(ast.unparse(base.value if isinstance(base, ast.Subscript) else base))
            if of is not None and (of.name.endswith("Base") or of.name == f"_{kind.name.capitalize()}"):
                made = self.constructor(of)
                return None if made is None or "_native" in ast.unparse(made.args) else made
        return None

    def variables(self, kind):
        """What a class puts in the place of its bases' variables."""
        def given(of):
            found = next((base for base in of.bases if isinstance(base, ast.Subscript)), None)
            one = found and (found.slice.elts if isinstance(found.slice, ast.Tuple) else [found.slice])
            return (ast.unparse(found.value), [ast.unparse(part).strip("'") for part in one]) if found else (None, [])

        base, kinds = given(kind)
        return dict(zip(given(self.found[base])[1], kinds)) if base in self.found else {}

    def text(self, name, depth):
        node = self.found[name]
        if not isinstance(node, ast.ClassDef):
            return heading(f"`{name}`", depth) + f"```python\n{signature(node)}\n```\n\n" + said(node)
        made = self.constructor(node)
        text = heading(f"`{name}`", depth)
        if made is not None and not name.startswith("_"):
            text += f"```python\n{signature(made, self.variables(node)).replace('def __init__', name).removesuffix(' -> None')}\n```\n\n"
        text += said(node)
        for member, part in self.members(node).items():
            if isinstance(part, tuple):
                part, behind = part
                words = [line.value.value for line in behind if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)]
                kinds = ast.unparse(part.annotation).strip("'")
                text += f"- `{member}: {kinds}`" + "".join(f": {' '.join(word.split())}" for word in words) + "\n"
                continue
            text = text.rstrip() + "\n\n"
            shown = f"{member}" if is_called(part, "property") or is_called(part, "cached_property") else signature(part, self.variables(node))
            text += f"{'#' * (depth + 1)} `{name}.{member}`\n\n```python\n{shown}\n```\n\n" + (said(part) or self.said.get(part, ""))
        return text.rstrip() + "\n\n"


def exported(path):
    """The names in a module's `__all__`."""
    for node in ast.parse((PACKAGE / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("__")]
    return []


def python():
    blocking, tasks = Module("_lock.py", "sync.py"), Module("_aio_lock.py", "aio.py")
    names = exported("__init__.py")
    errors = [name for name in names if name.endswith("Error")]
    text = "# Python, name by name\n\nFrom the package's sources. What options mean, and their defaults: [options](options.md). Errors: [errors](errors.md).\n\n"
    text += heading("`quorlock`", 2) + "".join(blocking.text(name, 3) for name in names if name in blocking.found and name not in errors)
    text += heading("`quorlock.aio`", 2) + "What has the same name as above is awaited.\n\n"
    text += "".join(tasks.text(name, 3) for name in (exported("aio.py") or ["Client", "Lock", "Lease", "Election", "Observer", "RWLock"])
                    if name in tasks.found)
    return text + heading("Errors", 2) + "".join(blocking.text(name, 3) for name in errors)


COMMENT = r"/\*\*.*?\*/"
DECLARED = re.compile(rf"^(?:({COMMENT})\n)?export (?:declare )?(?:abstract )?(class|interface|type|function|const|let) (\w+)", re.MULTILINE | re.DOTALL)
# Where TypeScript writes the types of the package to.
TYPES = ROOT / "node" / "dist"


def told(comment):
    """What a comment of TypeScript says."""
    lines = [re.sub(r"^\s*(?:/\*\*|\*/|\*)? ?", "", line.replace("*/", "").rstrip()) for line in (comment or "").splitlines()]
    return "\n".join(lines).strip() + "\n\n" if comment else ""


def end_of(text, at, stop):
    """Where the declaration ends that begins there: at `stop`, outside of all brackets."""
    deep = 0
    for place, letter in enumerate(text[at:], at):
        deep += (letter in "{([") - (letter in "})]")
        if letter in stop and deep == 0:
            return place + 1
    return len(text)


def members(body):
    """Each member of a class or interface that users see: its comment, name and declaration."""
    body = body.strip()
    while body:
        comment, rest = re.match(rf"((?:{COMMENT}\s*)*)(.*)", body, re.DOTALL).groups()
        end = end_of(rest, 0, ";")
        declared, body = rest[:end].strip(), rest[end:].strip()
        name = re.match(r"(?:(?:readonly|static|get|set|async|abstract) )*(\[?[\w.#]+\]?|constructor)\??", declared)
        if name and not re.match(r"#|private |protected |\[", declared):
            comments = re.findall(COMMENT, comment, re.DOTALL)
            yield (comments or [""])[-1], name[1], declared


def node_entry(name, files):
    for text in files.values():
        for found in DECLARED.finditer(text):
            if found[3] != name:
                continue
            comment, word = found[1] and found[1][found[1].rindex("/**"):], found[2]
            page = heading(f"`{name}`", 3)
            if word not in ("class", "interface"):
                # A function may be called in several ways.
                ways = [found] if word != "function" else [way for way in DECLARED.finditer(text) if way[3] == name]
                ways = [text[way.start(2):end_of(text, way.start(2), ";")] for way in ways]
                shown = "\n".join(re.sub(COMMENT + "\n?", "", way, flags=re.DOTALL).strip() for way in ways)
                return page + f"```ts\n{shown}\n```\n\n" + told(comment)
            begin = text.index("{", found.end())
            # Not one of its type parameters.
            while (head := text[found.start(2):begin].replace("=>", "")).count("<") != head.count(">"):
                begin = text.index("{", begin + 1)
            # Two interfaces are for the package alone.
            shown = re.sub(r"(, | implements )(Held|Acquirable<\w+>)", "", text[found.start(2):begin].strip())
            page += f"```ts\n{shown}\n```\n\n" + told(comment)
            for comment, member, declared in members(text[begin + 1:end_of(text, begin, "}") - 1]):
                if word == "interface":
                    declared = " ".join(re.sub(COMMENT, "", declared, flags=re.DOTALL).split())
                    page += f"- `{declared.removeprefix('readonly ').rstrip(';')}`" + (f": {' '.join(told(comment).split())}" if comment else "") + "\n"
                    continue
                page += heading(f"`{name}.{member}`", 4) + f"```ts\n{declared}\n```\n\n" + told(comment)
            return page.rstrip() + "\n\n"
    raise KeyError(name)


def node():
    files = {path.stem.removesuffix(".d"): path.read_text(encoding="utf-8") for path in sorted(TYPES.glob("*.d.ts"))}
    text = "# Node, name by name\n\nFrom the types of the package. What options mean, and their defaults: [options](options.md). Errors: [errors](errors.md).\n\n"
    for module, file in (("quorlock", "index"), ("quorlock/opentelemetry", "opentelemetry"), ("quorlock/testing", "testing")):
        listed = re.findall(r"^export (?:type )?\{(.*?)\} from", files[file], re.MULTILINE | re.DOTALL)
        names = [name.split()[-1] for names in listed for name in names.split(",") if name.strip()]
        names += [found[3] for found in DECLARED.finditer(files[file])]
        text += heading(f"`{module}`", 2) + "".join(node_entry(name, {file: files[file]} | files) for name in names)
    return text
