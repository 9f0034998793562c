"""What is made from core/options.toml for the command, and the table of the variables: see definition.py."""

import textwrap

from definition import listed, shown, spelled, spoken

# The type of a value in Rust, how a word becomes one, and what stands for it in the help, by what an option takes. A word has its own.
RUST = {
    "time": ("Duration", "times::parse", "T"), "limit": ("Duration", "times::parse", "T"), "flag": ("bool", None, None),
    "count": ("usize", None, "K"), "slots": ("u32", None, "N"), "fraction": ("f64", None, "F"), "text": ("String", None, "TEXT"),
    "urls": ("PathBuf", None, "FILE"), "pem": ("String", None, "FILE"),
}
# How the environment has it.
READS = {"time": "time", "text": "text", "pem": "text", "flag": "flag", "count": "count"}


def flags(options, of_lock):
    return [name for name, option in options.items() if "command" in option["in"] and ("lock" in option["in"]) == of_lock]


def field(name, option):
    return name + "_file" * (option["takes"] == "urls")


def rust_type(name, option):
    return "".join(word.title() for word in name.split("_")) if option["takes"] == "word" else RUST[option["takes"]][0]


def excluded(name, options):
    """The flags of the lock that it does not go with."""
    option = options[name]
    return [other for other in (*option.get("excludes", []), *option.get("command", {}).get("excludes", []))
            if "lock" in option["in"] and other in flags(options, True)]


def help_of(name, options):
    """What is said of the flag where its command is explained."""
    option, say = options[name], lambda value: shown(value, options, "command", "command")
    said = option.get("command", {}).get("text")
    text = [spoken(said or option["text"], options, "command", "command")]
    if option["takes"] == "word":
        text.append(f"Give {listed([*map(str, option['words'])], 'or')}.")
    least, most = option.get("least"), option.get("most")
    if (not said or option["takes"] in ("count", "slots")) and (least, most) != (None, None):
        text.append(f"{say(least)} to {say(most)}." if None not in (least, most) else f"At {'most' if least is None else 'least'} {say(most or least)}.")
    if others := excluded(name, options):
        text.append(f"Not with {listed([spelled(one, options[one], 'command', 'command') for one in others], 'nor')}.")
    if not said and "default" in option and option["takes"] != "flag":
        text.append(f"Default: {say(option['default'])}.")
    return " ".join(text).replace("`", "")


def value(name, option):
    return option.get("command", {}).get("value") or ("WORD" if option["takes"] == "word" else RUST[option["takes"]][2])


def struct_field(name, options):
    option = options[name]
    takes, own = option["takes"], option.get("command", {})
    lines = [f"/// {line}" for line in textwrap.wrap(help_of(name, options), 92)]
    given = ["short"] * ("short" in own) + ["long"]
    if "short" in own:
        given[0] = f"short = '{own['short']}'"
    lines.append(f"#[arg({', '.join(given)}{f', value_name = {chr(34)}{value(name, option)}{chr(34)}' if takes != 'flag' else ''})]")
    if "variable" in option and takes != "urls":
        lines.append(f'#[arg(env = "{option["variable"]}", hide_env_values = true)]')
    if takes == "pem":
        lines += ["// As text it begins with a hyphen.", "#[arg(allow_hyphen_values = true)]"]
    if takes == "word":
        words = ", ".join(f'"{word}"' for word in option["words"])
        lines.append(f"#[arg(value_parser = word::<{rust_type(name, option)}>(&[{words}]))]")
    elif takes in ("count", "slots"):
        lines.append(f"#[arg(value_parser = {name})]")
    elif RUST[takes][1]:
        lines.append(f"#[arg(value_parser = {RUST[takes][1]})]")
    if others := excluded(name, options):
        lines.append(f"#[arg(conflicts_with_all = [{', '.join(f'{chr(34)}{one}{chr(34)}' for one in others)}])]")
    kind = rust_type(name, option)
    lines.append(f"pub {field(name, option)}: {kind if takes == 'flag' else f'Option<{kind}>'},")
    return lines


def struct(options, name, of_lock, about, attributes):
    lines = [*(f"/// {line}" for line in about), "#[derive(Debug, Args)]", *attributes, f"pub struct {name} {{"]
    for one in flags(options, of_lock):
        lines += [f"    {line}" for line in struct_field(one, options)]
    return [*lines, "}"]


def setting(options, names, indent):
    """Lines that hand on what was given. What has no limit, no slots or is off where it is not given is handed on in any case."""
    always = ("limit", "slots", "flag")
    return [f"{' ' * indent}{'always' if options[name]['takes'] in always else 'given'} {name};" for name in names]


def flags_file(options):
    of_lock, of_set = flags(options, True), flags(options, False)
    pems = [name for name in of_set if options[name]["takes"] == "pem"]
    rest = [name for name in of_set if options[name]["takes"] not in ("pem", "urls")]
    words = sorted(rust_type(name, options[name]) for name in of_lock + of_set if options[name]["takes"] == "word")
    lines = ["//! The options that are flags of this program. Made from core/options.toml by tests/options/definition.py.", "",
             "use std::path::PathBuf;", "use std::time::Duration;", "", "use clap::Args;",
             f"use quorlock::{{{', '.join(['ClientBuilder', 'Lock', *words])}}};", "",
             "use crate::times;", "use crate::values::{number, on, word};", ""]
    lines += struct(options, "LockFlags", True, ["Those of a lock."], [])
    lines += ["", "impl LockFlags {", "    /// The lock with what was given.", "    pub fn on(&self, lock: Lock) -> Lock {", "        on! { self, lock:",
              *setting(options, of_lock, 12), "        }", "    }", "}", ""]
    lines += struct(options, "SetFlags", False, ["How to reach the set: all of its clients agree on what it is."],
                    ['#[command(next_help_heading = "The set of nodes")]'])
    lines += ["", "impl SetFlags {", "    /// The client with the certificates and keys that were given.",
              "    pub fn credentials_on(&self, client: ClientBuilder) -> ClientBuilder {", "        on! { self, client:",
              *setting(options, pems, 12), "        }", "    }", "", "    /// The client with the rest of what was given, but for the nodes.",
              "    pub fn on(&self, client: ClientBuilder) -> ClientBuilder {", "        on! { self, client:", *setting(options, rest, 12),
              "        }", "    }", "}"]
    for name in of_lock + of_set:
        option = options[name]
        if option["takes"] in ("count", "slots"):
            kind = RUST[option["takes"]][0]
            lines += ["", f"/// A value of `{spelled(name, option, 'command', 'command')}`.", f"pub fn {name}(text: &str) -> Result<{kind}, String> {{",
                      f"    number(text, {option['least']}, {option['most']})", "}"]
    lines += ["", "/// The flags, by the names that the options have elsewhere.", "pub const FLAGS: &[(&str, &str)] = &["]
    lines += [f'    ("{name}", "{spelled(name, options[name], "command", "command")}"),' for name in of_lock + of_set]
    lines += ["];", "", "/// Options that are no flags of this program, as they would be written.", "pub const NO_FLAGS: &[&str] = &["]
    lines += [f'    "{spelled(name, option, "command", "command")}",' for name, option in options.items() if "command" not in option["in"]]
    return "\n".join([*lines, "];"]) + "\n"


def variables(options):
    rows = []
    for name, option in options.items():
        if "variable" not in option or option["takes"] == "urls":
            continue
        reads = f'word("give {listed(option["words"], "or")}")' if option["takes"] == "word" else READS[option["takes"]]
        rows.append(f'{name} "{option["variable"]}" {reads},')
    return "\n".join(rows) + "\n"


def table(options, of_lock):
    rows = ["| option | in the environment | what |", "|---|---|---|"] if not of_lock else ["| option | what |", "|---|---|"]
    for name in flags(options, of_lock):
        option = options[name]
        letter = f"`-{option['command']['short']}`, " if "short" in option.get("command", {}) else ""
        flag = spelled(name, option, "command", "command") + (f" {value(name, option)}" if option["takes"] != "flag" else "")
        says = help_of(name, options).replace("|", "\\|")
        variable = option.get("variable", "")
        variable = f"`{variable}`: the URLs themselves" if option["takes"] == "urls" else f"`{variable}{'=true' * (option['takes'] == 'flag')}`"
        rows.append(f"| {letter}`{flag}` | {f'{variable} | ' * (not of_lock)}{says} |")
    return "\n".join(rows) + "\n"


def made(options):
    yield "core/cli/src/flags.rs", None, flags_file(options)
    yield "core/src/client/variables.rs", "variables", variables(options)
    yield "docs/reference/command.md", "flags of a lock", table(options, True)
    yield "docs/reference/command.md", "flags of the set", table(options, False)
