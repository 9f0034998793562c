"""What is made from core/options.toml for Node: see definition.py."""

import json


def for_tests(options):
    """By which tests in Node know what each option takes, and where it may be given."""
    known = {name: {"takes": option["takes"], "in": [place for place in option["in"] if place not in option.get("only", {})]}
             for name, option in options.items()}
    return json.dumps(known, indent=2) + "\n"


def made(options):
    yield "tests/options/options.json", None, for_tests(options)
