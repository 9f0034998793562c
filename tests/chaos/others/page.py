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
    if figures["strikes"] < floor:
        why.append(f"the fault struck {figures['strikes']} times, at least {floor} are asked for")
    if figures["updates"] < UPDATES:
        why.append(f"{figures['updates']} updates were written, at least {UPDATES} are asked for")
    if figures["strikes"] != sum(hit["struck"] for hit in figures["hits"]):
        why.append("the strikes are not those that are listed")
    return why


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
        if fault.fenced:
            return "no fences"
        return "–"
    figures = found.get((library.name, fault.name))
    if figures is None or refused(figures):
        return "not shown"
    lost = f"**{figures['lost']:,}**" if figures["lost"] else "0"
    of = "" if figures["updates"] >= 10_000 else f" of {figures['updates']:,}"
    return f"{lost}{of} ({figures['harmed']}/{figures['strikes']})"


def table(found, names, faults):
    rows = [["library", *(fault.title for fault in faults)]]
    rows += [[library.title, *(shown(library, fault, found) for fault in faults)]
             for library in setups.LIBRARIES.values() if library.name in names]
    return markdown(rows)


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
