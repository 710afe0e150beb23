"""Reads the files named, Bicep or YAML, and prints what they say as JSON, by file."""

import json
import sys

import tree_sitter
import tree_sitter_bicep
import yaml

BICEP = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))
NAMED = {
    "parameter_declaration": "parameters",
    "variable_declaration": "variables",
    "resource_declaration": "resources",
    "module_declaration": "modules",
    "output_declaration": "outputs",
}


class NoDoubles(yaml.SafeLoader):
    """YAML's `on` stays a word, and a key that is written twice is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        doubles = [key for key in keys if keys.count(key) > 1]
        if doubles:
            raise yaml.constructor.ConstructorError(None, None, f"written twice: {doubles[0]}", node.start_mark)
        return super().construct_mapping(node, deep)


NoDoubles.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not (tag == "tag:yaml.org,2002:bool" and first in "yYnNoO")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


def text(node):
    return node.text.decode()


def string(node):
    """A plain one; those with `${…}` in them are shown as written."""
    return text(node)[1:-1]


def named(node):
    return [child for child in node.children if child.is_named]


def value(node):
    """Objects, lists and texts as such, everything else as written."""
    if node.type == "object":
        return {string(key) if key.type == "string" else text(key): value(content) for key, content in properties(node)}
    if node.type == "array":
        return [value(child) for child in named(node)]
    if node.type == "string":
        return string(node)
    return {"expression": text(node)}


def properties(node):
    for child in named(node):
        if child.type == "object_property" and len(named(child)) == 2:
            yield named(child)


def body(declaration):
    """What is declared, below `if` and `for`."""
    for node in walk(declaration):
        if node.type == "object":
            return value(node)
    return {}


def bicep(source):
    root = BICEP.parse(source).root_node
    faults = [
        f"line {node.start_point[0] + 1}: {text(node)[:60]!r}" for node in walk(root) if node.type == "ERROR" or node.is_missing
    ]
    said = {kind: {} for kind in NAMED.values()}
    declared, mentioned, outputs_read = set(), set(), set()
    keys, names = set(), set()
    described = False
    for node in walk(root):
        parts = named(node)
        if node.type in NAMED:
            name = text(parts[0])
            names.add(parts[0].id)
            if node.type != "output_declaration":
                declared.add(name)
            about = {"body": body(node), "existing": b" existing " in node.text.split(b"{")[0]}
            if node.type in ("resource_declaration", "module_declaration"):
                about["of"] = string(parts[1])
            if node.type == "parameter_declaration":
                about = {"required": len(parts) < 3, "described": described, "default": value(parts[2]) if len(parts) > 2 else None}
            if node.type == "variable_declaration":
                about = {"value": value(parts[1])}
            said[NAMED[node.type]][name] = about
        if node.type == "decorators":
            described = "description" in text(node)
        elif node.parent == root and node.type != "decorators":
            described = False
        if node.type == "object_property" and parts and parts[0].type == "identifier":
            keys.add(parts[0].id)
        if node.type == "call_expression" and parts[0].type == "identifier":
            keys.add(parts[0].id)
        if node.type == "for_statement":
            for leaf in walk(parts[0]):
                if leaf.type in ("identifier", "loop_variable", "loop_enumerator"):
                    names.add(leaf.id)
                    declared.add(text(leaf))
        if node.type == "lambda_expression":
            names.add(parts[0].id)
            declared.add(text(parts[0]))
        if node.type == "resource_expression":
            keys.add(parts[1].id)
        if node.type == "member_expression" and parts[0].type == "member_expression":
            inner = named(parts[0])
            if len(inner) == 2 and text(inner[1]) == "outputs":
                outputs_read.add((text(inner[0]), text(parts[1])))
    for node in walk(root):
        if node.type == "identifier" and node.id not in keys and node.id not in names:
            mentioned.add(text(node))
    texts = sorted({string(node) for node in walk(root) if node.type == "string"})
    return {
        "faults": faults,
        **said,
        "declared": sorted(declared),
        "mentioned": sorted(mentioned),
        "outputs_read": sorted(outputs_read),
        "texts": texts,
    }


def read(path):
    with open(path, "rb") as file:
        source = file.read()
    if path.endswith(".bicep"):
        return bicep(source)
    return list(yaml.load_all(source, NoDoubles))


print(json.dumps({path: read(path) for path in sys.argv[1:]}))
