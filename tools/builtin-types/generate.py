#!/usr/bin/env python3
"""Makes the facts table of the built-in types (machinery's schema/builtin/types.tsv).

    tools/builtin-types/generate.py PROTOBUF.json TYPES.json MORE.json > generic-server/machinery/src/schema/builtin/types.tsv

TYPES.json holds the definitions and protobuf messages of v1.36, MORE.json those of alpha and beta versions; PROTOBUF.json objects as the real server sends them in both
encodings: Go writes a scalar that it holds by value always into protobuf, one behind a pointer only when it is set, and zero
in JSON only for the latter, so that the objects show which is which. What neither shows is in go-facts.txt, and messages that
no group serves, of discovery documents, and those that MORE.json lacks, in more-messages.json. The values that items of lists and values of maps may have are
in enums.json, by definition and field. The output is the same for the same input.

A line is  name TAB group/version/kind,… TAB JSON, sorted by name, definitions first; messages have `message` in the second column.
Members of a definition's JSON: `fields`, `embedded` (protobuf fields that hold inlined structs: name to [number, message]), `atomic`,
`unions`, and for definitions that are not objects `type`/`format`. Members of a field's: `type` and `format`, or `ref`,
`list`, `map`; `required`, `default`, `enum`, `listType`, `keys`, `patch`, `mergeKey`, `atomic`, `granular`, `proto` [number, type]; and of Go:
`pointer` (zero and absent differ), `keep` (written even when zero). Names lose `io.k8s.` and `api.` in front.
"""

import base64
import collections
import json
import os
import sys

SCALARS = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double"}
SPECIAL = {  # definitions that Go holds by value unless told otherwise, and whose zero is written
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
}


def short(name):
    return name.removeprefix("io.k8s.").removeprefix("api.")


def message_of(name):
    return name.replace("io.k8s.", "k8s.io.", 1).replace("-", "_")


def read_varint(data, i):
    value = shift = 0
    while True:
        byte = data[i]
        i += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, i


def read_fields(data):
    i = 0
    while i < len(data):
        key, i = read_varint(data, i)
        wire = key & 7
        if wire == 0:
            value, i = read_varint(data, i)
        else:
            size, i = read_varint(data, i) if wire == 2 else ({1: 8, 5: 4}[wire], i)
            value, i = data[i : i + size], i + size
        yield key >> 3, value


class Observations:
    """What the recorded objects show of the fields."""

    def __init__(self, definitions, messages):
        self.definitions = definitions
        self.absent = set()  # (message, field) that a protobuf message had not
        self.zeros = set()  # (definition, field) that was zero in JSON
        self.layouts = {m: {p[0]: (f, p[1]) for f, p in fields.items()} for m, fields in messages.items()}
        for name, definition in definitions.items():
            fields = {f: x["proto"] for f, x in definition.get("fields", {}).items() if x.get("proto")}
            fields.update(definition.get("proto_only", {}))
            if fields:
                self.layouts[message_of(name)] = {p[0]: (f, p[1]) for f, p in fields.items()}

    def look(self, message, data):
        layout, package = self.layouts.get(message, {}), message.rsplit(".", 1)[0]
        fields = list(read_fields(data))
        seen = {number for number, _ in fields}
        for number, (field, _) in layout.items():
            if number not in seen:
                self.absent.add((message, field))
        for number, value in fields:
            kind = layout.get(number, (None, "bytes"))[1].removeprefix("repeated ").lstrip(".")
            if kind.startswith("map<"):
                kind = kind[4:-1].split(",")[1].lstrip(".")
                value = next((v for n, v in read_fields(value) if n == 2), b"")
            if kind not in SCALARS:
                self.look(kind if kind.startswith("k8s.io.") else f"{package}.{kind}", value)


    def look_json(self, name, value):
        for field, x in self.definitions[name].get("fields", {}).items() if isinstance(value, dict) else ():
            if field not in value:
                continue
            member = value[field]
            if member in (0, "", False) and not isinstance(member, (list, dict)):
                self.zeros.add((name, field))
            if "ref" in x:
                self.look_json(x["ref"], member)
            elif "ref" in x.get("list", {}):
                for item in member or ():
                    self.look_json(x["list"]["ref"], item)
            elif "ref" in x.get("map", {}):
                for item in (member or {}).values():
                    self.look_json(x["map"]["ref"], item)


def observe(definitions, messages, pairs):
    kinds = {(g["group"], g["version"], g["kind"]): n for n, d in definitions.items() for g in d.get("gvk", [])}
    seen = Observations(definitions, messages)
    for pair in pairs:
        data = base64.b64decode(pair["protobuf"])
        if data[:4] != b"k8s\0":
            continue
        unknown = dict(read_fields(data[4:]))
        meta = {n: v.decode() for n, v in read_fields(unknown[1])}
        group, _, version = meta.get(1, "").rpartition("/")
        name = kinds.get((group, version, meta.get(2)))
        if name:
            seen.look(message_of(name), unknown.get(2, b""))
            seen.look_json(name, pair["json"])
    return seen


def read_facts(path):
    facts = collections.defaultdict(set)
    for line in open(path):
        words = line.split()
        if words and words[0] != "#":
            facts[words[0]].update((words[1], f) for f in words[2:])
    return facts


def go_facts(name, field, x, seen, facts):
    """Whether the member is a pointer, and whether it is written when zero."""
    key, at = (message_of(name), field), (short(name), field)
    plural, ref = "list" in x or "map" in x or x.get("format") == "byte", x.get("ref")
    special = ref in SPECIAL
    if plural:
        pointer = False
    elif ref and not special:
        pointer = x.get("default") != {}
    else:
        pointer = x.get("proto") is not None and key in seen.absent
        pointer = pointer or ((name, field) in seen.zeros and "default" not in x and not ref)
    pointer = (pointer or at in facts["pointer"]) and at not in facts["value"]
    if plural or pointer:
        keep = bool(x.get("required"))
    elif ref:
        keep = True
    else:
        keep = x.get("default") in ("", 0, False) and "default" in x
    keep = (keep or at in facts["keep"]) and at not in facts["omit"]
    return pointer, keep


def field_line(name, field, x, seen, facts, enums):
    out = {}
    for key in ("type", "format", "required", "default", "enum"):
        if key in x:
            out[key] = x[key]
    if "ref" in x:
        out["ref"] = short(x["ref"])
    for key in ("list", "map"):
        if key in x:
            out[key] = shape(x[key])
            if (short(name), field) in enums:
                out[key]["enum"] = enums[short(name), field]
    for key, ours in (("list-type", "listType"), ("list-map-keys", "keys"), ("patch-strategy", "patch"), ("patch-merge-key", "mergeKey")):
        if f"x-kubernetes-{key}" in x:
            out[ours] = x[f"x-kubernetes-{key}"]
    if "x-kubernetes-map-type" in x:
        out[x["x-kubernetes-map-type"]] = True  # atomic, or granular
    if x.get("proto"):
        out["proto"] = x["proto"]
    pointer, keep = go_facts(name, field, x, seen, facts)
    if pointer:
        out["pointer"] = True
    if keep:
        out["keep"] = True
    return out


def shape(x):
    out = {k: x[k] for k in ("type", "format", "default") if k in x}
    if "ref" in x:
        out["ref"] = short(x["ref"])
    for key in ("list", "map"):
        if key in x:
            out[key] = shape(x[key])
    return out


def definition_line(name, x, seen, facts, enums):
    if x.get("type") == "object" and "fields" not in x and seen.layouts.get(message_of(name)) == {}:
        x = {"fields": {}}  # an empty struct, where others without fields hold any JSON
    out = {k: x[k] for k in ("type", "format") if k in x}
    if "fields" in x:
        out["fields"] = {f: field_line(name, f, y, seen, facts, enums) for f, y in sorted(x["fields"].items())}
        package = message_of(name).rsplit(".", 1)[0]
        embedded = {}
        for field, (number, kind) in sorted(x.get("proto_only", {}).items()):
            if kind.removeprefix("repeated ") in SCALARS:  # a plain field under another name than JSON's
                json_name = next(f for f in x["fields"] if f.replace("-", "").replace("$", "").lower() == field.lower())
                out["fields"][json_name]["proto"] = [number, kind]
            elif field == "xKubernetesValidations":
                out["fields"]["x-kubernetes-validations"]["proto"] = [number, kind]
            else:
                embedded[field] = [number, kind if kind.startswith("k8s.io.") else f"{package}.{kind}"]
        if embedded:
            out["embedded"] = embedded
    if x.get("x-kubernetes-map-type") == "atomic":
        out["atomic"] = True
    if "x-kubernetes-unions" in x:
        out["unions"] = x["x-kubernetes-unions"]
    gvks = ",".join(f"{g['group']}/{g['version']}/{g['kind']}" for g in x.get("gvk", []))
    return f"{short(name)}\t{gvks}\t{json.dumps(out, separators=(',', ':'), sort_keys=True)}"


# Types that v1.36 knows but serves in no recording, since only emulated versions have them: the same as those of another
# version. By package: the other version, the types, and members whose values are not named.
TWINS = {
    "admissionregistration.v1beta1": (
        "admissionregistration.v1",
        [
            "AuditAnnotation", "ExpressionWarning", "TypeChecking", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicyBindingList", "ValidatingAdmissionPolicyBindingSpec", "ValidatingAdmissionPolicyList",
            "ValidatingAdmissionPolicySpec", "ValidatingAdmissionPolicyStatus", "Validation",
        ],
        [("ValidatingAdmissionPolicySpec", "failurePolicy")],
    ),
}


def twins(lines):
    for package, (other, types, silent) in TWINS.items():
        version = package.rsplit(".", 1)[1]
        for name, gvks, text in (line.split("\t") for line in lines):
            kind = name.removeprefix(other + ".")
            if kind in types and kind != name:
                gvks = ",".join("/".join([*gvk.split("/")[:1], version, *gvk.split("/")[2:]]) for gvk in gvks.split(",") if gvk)
                facts = json.loads(text.replace(f'"{other}.', f'"{package}.'))
                for of, field in silent:
                    if of == kind:
                        facts["fields"][field].pop("enum", None)
                yield f"{package}.{kind}\t{gvks}\t{json.dumps(facts, separators=(',', ':'), sort_keys=True)}"


def main():
    pairs, *types = (json.load(open(path)) for path in sys.argv[1:])
    here = os.path.dirname(os.path.abspath(__file__))
    definitions, messages = {}, {}
    for part in types:
        definitions.update(part["definitions"])
        messages.update(part.get("messages", {}))
    messages.update(json.load(open(os.path.join(here, "more-messages.json"))))
    facts = read_facts(os.path.join(here, "go-facts.txt"))
    enums = json.load(open(os.path.join(here, "enums.json")))
    enums = {tuple(at.split(" ")): values for at, values in enums.items()}
    seen = observe(definitions, messages, pairs)
    lines = [definition_line(n, x, seen, facts, enums) for n, x in definitions.items()]
    for line in sorted([*lines, *twins(lines)]):
        print(line)
    for name, fields in sorted(messages.items()):
        print(f"{name}\tmessage\t{json.dumps(fields, separators=(',', ':'), sort_keys=True)}")


if __name__ == "__main__":
    main()
