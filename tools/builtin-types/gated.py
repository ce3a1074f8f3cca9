#!/usr/bin/env python3
"""Makes the table of members behind feature gates (machinery's schema/builtin/gated.tsv) of the facts table and of gates.txt.

    tools/builtin-types/gated.py > generic-server/machinery/src/schema/builtin/gated.tsv

A line is  type TAB gate TAB path path…  : where in an object of a kind, which the type is that of, the members of a gate are. A path's steps are
members, with `[]` behind those whose items and `{}` behind those whose values are meant; what may be at the end: see gates.txt.
"""

import collections
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "../../generic-server/machinery/src/schema/builtin/types.tsv")


def parts(fields):
    """The parts of a type that have types of their own: step and type."""
    for name, facts in sorted(fields.items()):
        for mark, shape in (("", facts), ("[]", facts.get("list")), ("{}", facts.get("map"))):
            if shape and "ref" in shape:
                yield name + mark, shape["ref"]


def main():
    types, kinds = {}, []
    for line in open(TABLE):
        name, gvks, text = line.rstrip("\n").split("\t")
        if gvks != "message":
            types[name] = json.loads(text).get("fields", {})
            kinds += [(gvk, name) for gvk in gvks.split(",") if gvk and not gvk.endswith("List")]
    gates = collections.defaultdict(list)  # type: (gate, member)
    for line in open(os.path.join(HERE, "gates.txt")):
        if not line.startswith("#"):
            gate, name, *members = line.split()
            for member in members:
                assert re.split(r"[-.!\[]", member)[0] in types[name], line
                gates[name].append((gate, member))

    def paths(name, above, seen):
        for gate, member in gates.get(name, ()):
            yield gate, ".".join([*above, member])
        for step, inner in parts(types.get(name, {})):
            if inner not in seen:
                yield from paths(inner, [*above, step], seen | {inner})

    for name in sorted({name for _, name in kinds}):
        found = collections.defaultdict(list)
        for gate, path in paths(name, [], {name}):
            found[gate].append(path)
        for gate, of_gate in sorted(found.items()):
            print(name, gate, " ".join(of_gate), sep="\t")


if __name__ == "__main__":
    main()
