"""The page of docs/explanation/others.md, made from the figures in results/, and which figures count."""

import json
import pathlib
import sys

import setups
import strikes

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
TEMPLATE = HERE / "page.md"
PAGE = HERE.parents[2] / "docs" / "explanation" / "others.md"
# A cell counts where the fault struck as often, and this many updates were written.
STRIKES, UPDATES = 5, 1000


def meets(library, fault):
    """Whether a library can meet a fault: whether it has such servers, and fences where they are asked for."""
    if fault.fenced and not library.fence:
        return False
    if "replicas" in fault.on:
        return library.servers == "one"
    return library.servers in fault.on


def cells():
    return [(library.name, fault.name) for library in setups.LIBRARIES.values() for fault in strikes.FAULTS.values() if meets(library, fault)]


def refused(figures):
    """Why the figures of a run do not count."""
    why = list(figures["wrong"])
    # Without a lock there is no hold to aim at.
    floor = STRIKES if figures["library"] != setups.UNLOCKED else 0
    if figures["strikes"] < floor and not locked_out(figures):
        why.append(f"the fault struck {figures['strikes']} times, at least {floor} are asked for")
    if figures["overdue"]:
        why.append(f"{figures['overdue']} rounds lost updates because the machine stood still, and no fault was the reason")
    if figures["updates"] < UPDATES and not locked_out(figures):
        why.append(f"{figures['updates']} updates were written, at least {UPDATES} are asked for")
    if figures["strikes"] != sum(hit["struck"] for hit in figures["hits"]):
        why.append("the strikes are not those that are listed")
    return why


def locked_out(figures):
    """Whether no worker got the lock while the fault was prepared, each time that this was tried."""
    return len(figures["hits"]) >= STRIKES and not any(hit["worker"] for hit in figures["hits"])


def path(library, results=RESULTS):
    return results / f"{library}.jsonl"


def kept(results=RESULTS):
    """The figures of all runs that were kept, by library and fault."""
    found = {}
    for file in sorted(results.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            figures = json.loads(line)
            found[figures["library"], figures["fault"]] = figures
    return found


def keep(figures, results=RESULTS):
    """Keeps the figures of a run in place of those of an earlier one. Other cells of the library may be kept at the same time."""
    import fcntl

    with open(path(figures["library"], results), "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines = {json.loads(line)["fault"]: line.rstrip("\n") for line in file}
        lines[figures["fault"]] = json.dumps(figures)
        file.seek(0)
        file.truncate()
        file.writelines(lines[name] + "\n" for name in strikes.FAULTS if name in lines)


def shown(library, fault, found):
    """A cell of the table."""
    if not meets(library, fault):
        return "no fences" if fault.fenced and library.servers != "none" else "–"
    figures = found.get((library.name, fault.name))
    if figures is None or refused(figures):
        return "not shown"
    if locked_out(figures):
        return "no lock"
    lost = f"**{figures['lost']:,}**" if figures["lost"] else "0"
    of = "" if figures["updates"] >= 10_000 else f" of {figures['updates']:,}"
    return f"{lost}{of} ({figures['harmed']}/{figures['strikes']})"


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def titled(fault):
    return f"{fault.title} `{fault.name}`"


def lost_of(found, names, faults):
    """The table of some libraries: a row each, with a column for each fault that one of them can meet."""
    libraries = [setups.LIBRARIES[name] for name in names]
    faults = [fault for fault in faults if any(meets(library, fault) for library in libraries)]
    rows = [["library", *map(titled, faults)]]
    rows += [[f"{library.title} `{library.name}`", *(shown(library, fault, found) for fault in faults)] for library in libraries]
    return markdown(rows)


def counted(found, names, fault):
    """Of some libraries the figures of one fault that count."""
    return [found[name, fault] for name in names if (name, fault) in found and not refused(found[name, fault])
            and not locked_out(found[name, fault])]


def summary(found):
    """What the page says first: by each fault how many of the others lost an update, and how many updates ours did."""
    def lose(kinds, fault):
        names = [name for name, library in setups.LIBRARIES.items() if library.language != "ours" and library.servers in kinds]
        figures = counted(found, names, fault)
        return f"{sum(one['lost'] > 0 for one in figures)} of {len(figures)}" if figures else "–"

    def ours(name, fault):
        return next((f"{one['lost']:,}" for one in counted(found, [name], fault)), "–")

    rows = [["fault", "libraries of one server that lost updates", "libraries of several", "lost by Quorlock, five servers", "lost by Quorlock, one server"]]
    rows += [[titled(fault), lose(["one"], name), lose(["five", "etcd"], name), ours("quorlock", name), ours("quorlock-one", name)]
             for name, fault in strikes.FAULTS.items()]
    return markdown(rows)


def made(found):
    """The page."""
    faults = list(strikes.FAULTS.values())
    five = [name for name, library in setups.LIBRARIES.items() if library.servers in ("five", "etcd")]
    one = [name for name, library in setups.LIBRARIES.items() if library.servers in ("none", "one")]
    figures = list(found.values())
    rows = [["library", "version", "servers", "set up", "asked", "fence"]]
    rows += [[library.title, library.version() or "this one", {"one": "1", "five": "5", "etcd": "3"}[library.servers], library.setup, library.look or "no",
              library.fence or "none"] for library in setups.LIBRARIES.values() if library.servers != "none"]
    plain = strikes.FAULTS["none"]
    words = {
        "summary": summary(found), "one": lost_of(found, one, faults), "five": lost_of(found, five, faults), "libraries": markdown(rows),
        "faults": markdown([["fault", "what is done"], *([titled(fault), fault.text] for fault in faults)]),
        "strikes": str(STRIKES), "patience": f"{strikes.TAKEN_SECONDS:g}", "updates": f"{UPDATES:,}", "think": f"{plain.think / 1000:g} s", "ttl": f"{plain.ttl / 1000:g} s",
        "failover": f"{strikes.FAULTS['failover'].ttl / 1000:g} s", "seconds": f"{plain.seconds:g}", "longer": f"{strikes.FAULTS['failover'].seconds:g}",
        "workers": listed({one["workers"] for one in figures}), "about": listed({one["servers"] for one in figures if one["servers"]}),
        "machine": listed({one["machine"] for one in figures}),
    }
    text = TEMPLATE.read_text()
    for name, value in words.items():
        text = text.replace("{" + name + "}", value)
    return f"<!-- Made by tests/chaos/others.py from tests/chaos/others/page.md and the figures that it keeps; do not edit. -->\n{text}"


def listed(values):
    return " or ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(values))


def wrong(found):
    """What may not be in the figures that are kept: a cell that does not count, is of no row, or has another version than the pins."""
    lines = [f"{' '.join(name)}: there is no such cell" for name in found if name not in cells()]
    for (library, fault), figures in found.items():
        lines += [f"{library} {fault}: {why}" for why in refused(figures)]
        if library in setups.LIBRARIES and figures["version"] != setups.LIBRARIES[library].version():
            lines.append(f"{library} {fault}: it ran {figures['version']}, and {setups.LIBRARIES[library].version()} is pinned")
    return lines


def main(write, results=RESULTS, target=PAGE):
    found = kept(results)
    lines, text = wrong(found), made(found)
    if write:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        lines.append(f"{target.name} is not what the figures say: run `tests/chaos/others.py --write`")
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{len(found)} of {len(cells())} cells have figures")
    print(f"{int(not lines)} passed, {len(lines)} failed")
    return int(bool(lines))
