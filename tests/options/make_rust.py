"""What is made from core/options.toml for the core and its tests: see definition.py."""

import textwrap

from definition import INTEGERS, about, milliseconds, wanted_names

# What an option is in Rust, by what it takes: how a setter takes it, how that makes the value, and what is kept.
TAKEN = {"time": "Duration", "limit": "impl Into<Option<Duration>>", "flag": "bool", "count": "usize", "slots": "impl Into<Option<u32>>",
         "fraction": "f64", "text": "impl Into<String>", "name": "impl Into<Option<Owner>>", "pem": "impl Into<String>"}
KEPT = {"time": "Duration", "limit": "Option<Duration>", "flag": "bool", "count": "usize", "slots": "Option<u32>", "fraction": "f64",
        "text": "Arc<str>", "name": "Option<Owner>"}
# How serde reads it, where that is not by its type.
READ = {"time": "seconds", "limit": "limit", "word": "word"}
GIVEN = {"time": "Duration", "limit": "Option<Duration>", "flag": "bool", "count": "usize", "slots": "u32", "fraction": "f64", "text": "String",
         "pem": "String", "urls": "Vec<String>"}
# What a runner of scenarios makes of the word in a line.
SCENARIO = {"time": "millis({value})?", "limit": "limit({value})?", "flag": "switch({value})?", "count": "number({value})?",
            "slots": "number({value})? as u32", "fraction": "fraction({value})?", "text": "string({value})", "pem": "string({value})",
            "name": "Owner::named(bytes({value}))", "word": "{value}.parse()?"}


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def docs(name, options, place, width=96):
    lines = []
    for paragraph in filter(None, about(name, options, "rust", place)):
        lines += ([""] if lines else []) + textwrap.wrap(paragraph, width, break_long_words=False, break_on_hyphens=False)
    return "".join(f"/// {line}".rstrip() + "\n" for line in lines)


def sentence(name, options):
    return "".join(f"/// {line}\n" for line in textwrap.wrap(about(name, options, "rust", "lock")[0], 90))


def of(options, *places):
    """The options that may be given in one of the places in Rust, with their definitions."""
    for name, option in options.items():
        if any(name in wanted_names(options, "rust", place) for place in places) and option["takes"] != "nothing":
            yield name, option


def taken(name, option):
    if option["takes"] == "word":
        return f"crate::{camel(name)}"
    return "impl AsRef<str>" if option.get("parsed") else TAKEN[option["takes"]]


def kept(name, option):
    if option["takes"] == "word":
        return camel(name)
    if parsed := option.get("parsed"):
        return f"Result<{parsed}, Error>"
    # One that is unset is the process's own, which is given to many.
    kind = "Arc<String>" if option["takes"] == "text" and option.get("unset") else KEPT[option["takes"]]
    return f"Option<{kind}>" if option.get("unset") else kind


def setter(name, option, options, place, of="Self"):
    """A setter of an option of locks, which says by a closure what it changes: of several locks in each."""
    before, value = "", name
    if option.get("parsed"):
        before = f"    let {name} = {option['parsed']}::given({name}.as_ref());\n"
        value = f"{name}.clone()"
    elif option["takes"] in ("limit", "slots", "name"):
        before = f"    let {name} = {name}.into();\n"
        value = f"{name}.clone()" if option["takes"] == "name" else name
    elif option["takes"] == "text":
        before = f"    let {name} = Arc::new({name}.into());\n"
        value = f"{name}.clone()"
    value = f"Some({value})" if option.get("unset") else value
    return (f"{docs(name, options, place)}pub fn {name}(self, {name}: {taken(name, option)}) -> {of} {{\n{before}"
            f"    self.change(|options| options.{name} = {value})\n}}\n")


def setter_of_client(name, option, options):
    """A setter of an option that only a client has."""
    takes = option["takes"]
    value = {"text": f"{name}.into().into()", "pem": f"Some({name}.into())"}.get(takes, f"Some({name})" if option.get("unset") else name)
    at = "self" if takes == "pem" else "self.settings"
    end = f'self.gives("{name}")' if "variable" in option else "self"
    return (f"{docs(name, options, 'client')}pub fn {name}(mut self, {name}: {taken(name, option).removeprefix('crate::')}) -> ClientBuilder {{\n"
            f"    {at}.{name} = {value};\n    {end}\n}}\n")


def default(name, option):
    takes = option["takes"]
    if option.get("unset") or "default" not in option and takes in ("slots", "name"):
        return "None"
    if takes == "word":
        return f"{camel(name)}::default()"
    if parsed := option.get("parsed"):
        return f"Ok({parsed}::default())"
    constant = f"defaults::{name.upper()}"
    return {"text": f"{constant}.into()", "limit": f"Some({constant})"}.get(takes, constant)


def duration(time):
    ms = milliseconds(time)
    if ms == 0:
        return "Duration::ZERO"
    return f"Duration::from_millis({ms})" if ms % 1000 else f"Duration::from_secs({ms // 1000})"


def constant(name, option, options):
    """A default that the core has as a constant."""
    value, takes = option.get("default"), option["takes"]
    if value is None or takes in ("word", "urls") or takes == "text" and ("parsed" in option or "unset" in option):
        return ""
    kind = {"limit": "Duration", "text": "&str"}.get(takes, KEPT[takes])
    said = {"time": lambda: duration(value), "limit": lambda: duration(value), "flag": lambda: str(value).lower(),
            "count": lambda: f"{value:_}", "text": lambda: f'"{value}"'}.get(takes, lambda: str(value))()
    return f"{sentence(name, options)}pub const {name.upper()}: {kind} = {said};\n"


def bounds(name, option):
    """The check of a value between two that are known: what other options bound is for the code to check."""
    least, most = option.get("least"), option.get("most")
    known = all(milliseconds(one) is not None or isinstance(one, int | float) for one in (least, most))
    check = {"time": "within", "fraction": "fraction", "count": "counted"}.get(option["takes"])
    if not known or not check or most == INTEGERS:
        return ""
    show = duration if check == "within" else (lambda one: f"{one:_}" if isinstance(one, int) else str(one))
    value = f"times.{name}" if option.get("unset") else f"self.{name}"
    call = f'{check}("{name}", {value}, {show(least)}, {show(most)})?;'
    if len(call) <= 88:
        return call + "\n"
    parts = [f'"{name}"', value, show(least), show(most)]
    return f"{check}(\n" + "".join(f"    {part},\n" for part in parts) + ")?;\n"


def compared(options):
    return [(name, option) for name, option in of(options, "lock") if option.get("again") == "compared"]


def settled(name, option):
    """The type of an option whose default is known."""
    return KEPT[option["takes"]]


def asked(options):
    fields = compared(options)
    yield "core/src/protocol/asked.rs", "what is compared", "".join(f"{sentence(name, options)}pub {name}: {settled(name, option)},\n" for name, option in fields)
    yield "core/src/config/asked.rs", "what a lock asks for", "".join(
        f"{name}: {'times' if option.get('unset') else 'self'}.{name},\n" for name, option in fields)
    text = ""
    for name, option in fields:
        call, shown = ("limit", "") if option["takes"] == "limit" else ("", ":?")
        has, asks = (f"{call}({side}.{name})" if call else f"{side}.{name}" for side in ("has", "asks"))
        push = f'let (has, asks) = ({has}, {asks});\n    differ.push(format!("{name} ({{has{shown}}}, not {{asks{shown}}})"));'
        text += f"if self.{name} != client.{name} && asks.{name} != has.{name} {{\n    {push}\n}}\n"
    yield "core/src/config/asked.rs", "how it differs", text


def field(name, option):
    kind = camel(name) if option["takes"] == "word" else GIVEN[option["takes"]]
    read = READ.get(option["takes"])
    return f'{f"#[serde(with = {chr(34)}{read}{chr(34)})] " if read else ""}{name}: {kind},\n'


def scenario(name, option, sign=""):
    return f'"{name}" => {sign}to.{name}({SCENARIO[option["takes"]].format(value=f"{sign}value")}),\n'


def made(options):
    both = [one for one in of(options, "lock") if one[0] in wanted_names(options, "rust", "client")]
    of_locks = [one for one in of(options, "lock") if one not in both]
    of_clients = [one for one in of(options, "client") if one not in both]
    settings = [(name, option) for name, option in of_clients if option["takes"] not in ("urls", "pem")]
    config, check = "core/src/config.rs", "core/src/config/check.rs"
    yield config, "defaults", "".join(constant(name, option, options) for name, option in of(options, "client", "lock"))
    yield config, "fields of a lock", "".join(
        f"{sentence(name, options)}pub(crate) {name}: {kept(name, option)},\n" for name, option in [*both, *of_locks])
    yield config, "defaults of a lock", "".join(f"{name}: {default(name, option)},\n" for name, option in [*both, *of_locks])
    yield config, "setters of a client and its locks", "\n".join(
        setter(name, option, options, "lock", "$Type").replace("Arc::new", "std::sync::Arc::new").replace("Group::given", "crate::protocol::group::Group::given")
        for name, option in both)
    yield check, "bounds of a lock", "".join(bounds(name, option) for name, option in [*both, *of_locks] if not option.get("unset"))
    yield config, "settings", "".join(f"{sentence(name, options)}pub(crate) {name}: {kept(name, option)},\n" for name, option in settings)
    yield check, "bounds", "".join(bounds(name, option) for name, option in settings)
    yield "core/src/client/builder.rs", "settings", "".join(f"{name}: {default(name, option)},\n" for name, option in settings)
    yield "core/src/client/builder.rs", "setters of a client", "\n".join(
        setter_of_client(name, option, options) for name, option in of_clients if option["takes"] != "urls")
    yield "core/src/lock.rs", "setters of a lock", "\n".join(setter(name, option, options, "lock", "Lock") for name, option in of_locks)
    yield "core/src/locks.rs", "setters of several locks", "\n".join(
        setter(name, option, options, "several", "Locks") for name, option in of(options, "several") if (name, option) in of_locks)
    yield from asked(options)
    yield "core/src/options.rs", "options of a client", "".join(field(*one) for one in of_clients)
    yield "core/src/options.rs", "options of a client and its locks", "".join(field(*one) for one in both)
    yield "core/src/options.rs", "options of a lock", "".join(field(*one) for one in of_locks if one[1]["takes"] != "name")
    runner = "tests/rust/src/bin/scenario/options.rs"
    yield runner, "options of all", "".join(scenario(*one, "$") for one in both)
    yield runner, "options of a client", "".join(scenario(*one) for one in of_clients if one[1]["takes"] != "urls")
    yield runner, "options of a lock", "".join(scenario(*one) for one in of_locks)
    yield runner, "options of several locks", "".join(scenario(*one) for one in of_locks if one in list(of(options, "several")))
