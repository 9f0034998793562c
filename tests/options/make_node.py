"""What is made from core/options.toml for Node: see definition.py."""

import json
import textwrap

from definition import about, listed, spelled, wanted_names

# By what an option takes: its type in TypeScript, what the native part gets, how that is made in TypeScript, its type in Rust, and how that becomes what
# the core takes. A word has types of its own.
OF = {
    "time": ("number", "number", "milliseconds", "f64", 'time("{}", *given)?'),
    "limit": ("number | null", "number", "limit", "f64", 'limit("{}", *given)?'),
    "flag": ("boolean", "boolean", "flag", "bool", "*given"),
    "count": ("number", "number", "count({}, {})", "u32", "*given as usize"),
    "slots": ("number", "number", "count({}, {})", "u32", "*given"),
    "fraction": ("number", "number", "fraction", "f64", "*given"),
    "text": ("string", "string", "text", "String", "given.clone()"),
    "word": (None, None, "string({})", "String", "given.parse()?"),
    "name": ("Name", "Uint8Array", "octets", "Uint8Array", "Owner::named(given.to_vec())"),
    "urls": ("string | Iterable<string>", "string[]", "urls", "Vec<String>", "given.clone()"),
    "pem": ("string | Uint8Array", "string", "pem", "String", "given.clone()"),
}
TYPE, NATIVE, CONVERT, RUST, SET = range(5)
# What takes some of a lock's options.
PARTIAL = {"election": "ElectionOptions", "semaphore": "SemaphoreOptions", "several": "SeveralOptions", "rwlock": "RWLockOptions"}


def names(options, place):
    return [name for name in options if name in wanted_names(options, "node", place)]


def ours(name, options, place="lock"):
    return spelled(name, options[name], "node", place)


def lacking(options, place, of):
    """The options among those that may not be given there."""
    return [name for name in of if place not in options[name]["in"] or place in options[name].get("by_position", ())]


def union(words):
    return " | ".join(map(json.dumps, words))


def kind(option, side):
    return union(option["words"]) if option["takes"] == "word" else OF[option["takes"]][side]


def comment(name, options, place):
    option = options[name]
    if place == "acquire":
        # Its default is the lock's.
        options = options | {name: {field: said for field, said in option.items() if field != "default"}}
    first, rest = about(name, options, "node", place)
    more = ["The same for all clients of a set."] if option.get("of_the_set") else []
    if "variable" in option:
        before, default, value = rest.partition("Default: ")
        rest = f"{before}Default: what `{option['variable']}` of the environment says{', else ' + value if default else '.'}"
    lines = textwrap.wrap(" ".join([first, *more, rest]).strip(), 118, break_long_words=False, break_on_hyphens=False)
    return f"/** {lines[0]} */" if not lines[1:] else "\n".join(["/**", *(f" * {line}" for line in lines), " */"])


def fields(options, place, which):
    """The members of an interface, as a user sees them."""
    text = ""
    for name in which:
        # What has no default has to be given where it stands for itself.
        needed = place in options[name].get("by_position", ())
        end = f": {kind(options[name], TYPE)};" if needed else f"?: {kind(options[name], TYPE)} | undefined;"
        text += f"{comment(name, options, place)}\n{ours(name, options, place)}{end}\n"
    return text


def indented(text):
    return textwrap.indent(text, "  ")


def less(which, base, omitted, options):
    """The beginning of an interface that has all of another but some."""
    of = f"Omit<{base}, {union(ours(name, options) for name in omitted)}>" if omitted else base
    return f"export interface {which} extends {of} {{"


def converter(option):
    if option["takes"] == "word":
        said = listed([json.dumps(word) for word in option["words"]], "or")
        return f"string('{said}')"
    return OF[option["takes"]][CONVERT].format(option.get("least", 0), option.get("most", ""))


def table(name, which, options):
    rows = "".join(f"  {ours(one, options)}: {converter(options[one])},\n" for one in which)
    return f"const {name}: Record<string, Convert> = {{\n{rows}}};\n"


def natives(which, options):
    return "".join(f"{ours(name, options)}?: {kind(options[name], NATIVE)};\n" for name in which)


def struct(which, options):
    return "".join(f"pub {name}: Option<{OF[options[name]['takes']][RUST]}>,\n" for name in which)


def setters(which, options):
    return "".join(f"{name} = |given| {OF[options[name]['takes']][SET].format(ours(name, options))},\n" for name in which)


def for_tests(options, where):
    """By which tests in Node know what each option takes, and where it may be given there."""
    known = {}
    scope = names(options, "scope")
    for name, option in options.items():
        places = [place for place in option["in"] if name in wanted_names(options, "node", place) and place not in ("once", "scope")
                  and place not in option.get("by_position", ())]
        if name in names(options, "once") or name in where:
            places.append("once")
        if name in scope:
            places += ["scope", *(f"scope, {place}" for place in ("several", "semaphore") if name in where or not lacking(options, place, [name]))]
        known[name] = {"takes": option["takes"], "in": places}
        known[name] |= {field: option[field] for field in ("words", "without", "path_is_shown") if field in option}
        # Where it stands among the options all the same, and has to be given.
        known[name] |= {"needed": ["once"]} if name in names(options, "once") and "once" in option.get("by_position", ()) else {}
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(said)}" for name, said in known.items()) + "\n}\n"


def made(options):
    client, lock, scope = (names(options, place) for place in ("client", "lock", "scope"))
    where = [name for name in client if name not in lock]
    both, one = [name for name in lock if name in client], [name for name in lock if name not in client]
    call = [name for name in scope if name not in (*lock, *where)]
    job = [name for name in names(options, "once") if name not in lock or "once" in options[name].get("at", {})]

    path = "node/src/options.ts"
    yield path, "options of a lock", fields(options, "lock", lock)
    yield path, "ClientOptions", less("ClientOptions", "LockOptions", one, options) + "\n" + indented(fields(options, "client", where)) + "}\n"
    for place, which in PARTIAL.items():
        yield path, which, less(which, "LockOptions", lacking(options, place, lock), options) + "}\n"
    yield path, "options of an acquire", fields(options, "acquire", names(options, "acquire"))
    rows = "".join(f"  {place}: [{', '.join(json.dumps(ours(name, options)) for name in lacking(options, place, (*lock, *call)))}],\n"
                   for place in ("once", *PARTIAL)).replace(": [],", ": [] as readonly string[],")
    tables = [table("OF_LOCK", both, options), table("OF_ONE_LOCK", one, options), table("OF_CLIENT", where, options), table("OF_CALL", call, options)]
    tables += [table("OF_ONCE", [name for name in names(options, "once") if name not in scope], options)]
    tables += [table("OF_ACQUIRE", names(options, "acquire"), options), f"const NOT_OF = {{\n{rows}}};\n"]
    yield path, "tables of converters", "\n".join(tables)
    yield "node/src/redlock.ts", "options of a call", fields(options, "scope", call)
    yield "node/src/once.ts", "OnceOptions", (
        less("OnceOptions<R = undefined>", "AttemptOptions<R>", lacking(options, "once", (*lock, *call)), options)
        + "\n" + indented(fields(options, "once", job)) + "}\n")
    for which, part in ((lock, "options of a lock"), (where, "options of a client")):
        yield "node/src/binding.ts", part, natives(which, options)
        yield "node/native/options.rs", f"fields of the {part}", struct(which, options)
    for which, part in ((both, "a client and a lock"), (one, "one lock"), (where, "a client alone")):
        yield "node/native/options.rs", f"what sets the options of {part}", setters(which, options)
    others = [(name, ours(name, options)) for name in dict.fromkeys([*scope, *lock]) if name != ours(name, options)]
    yield "node/native/failure.rs", "names that JavaScript writes otherwise", (
        f"const OPTIONS: [(&str, &str); {len(others)}] = [\n" + "".join(f'    ("{name}", "{its}"),\n' for name, its in others) + "];\n")
    yield "tests/options/options.json", None, for_tests(options, where)
