"""Whether a bill of materials says what is in a package: each crate that is linked stands in it, and each that stands in it is the
locked one, with its checksum and its licence. It may name what only builds or tests, too.
"""


def wrong(bom, lock, linked):
    """`bom` as CycloneDX has it, `lock` as Cargo.lock has it, `linked` names with versions; why it does not."""
    known = {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
    own = bom["metadata"]["component"]
    found, named = [], {(own["name"], own["version"])}
    for one in bom["components"]:
        name = (one["name"], one["version"])
        named.add(name)
        shown = " ".join(name)
        if name not in known:
            found.append(f"{shown} is not locked")
            continue
        sums = [hash["content"] for hash in one.get("hashes", ()) if hash["alg"] == "SHA-256"]
        # A crate of ours has none.
        if known[name] and sums != [known[name]]:
            found.append(f"{shown} has another checksum than is locked")
        if not one.get("licenses"):
            found.append(f"{shown} has no licence")
    return found + [f"{' '.join(name)} is linked, and not named" for name in sorted(set(linked) - named)]
