#!/usr/bin/env bash
# Packs a Functions app for deployment: deploy/package.sh APP_DIRECTORY OUT
#
# OUT.zip becomes a zip, any other name a directory. Either holds host.json, a function.json per function, certificates of
# authorities if the app has any, and the program that host.json names, with its run bit set. Nothing else is
# taken along: no settings, no databases, no keys.
#
#   --binary PATH     takes this program and builds none
#   --allow-loader    takes one that is not static: for this machine only, as in tests
set -euo pipefail

usage() {
  echo "usage: deploy/package.sh [--binary PATH] [--allow-loader] APP_DIRECTORY OUT.zip|OUT_DIRECTORY" >&2
  exit 2
}

binary="" loader=refused arguments=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    --binary) [ "$#" -gt 1 ] || usage; binary=$(realpath "$2"); shift ;;
    --allow-loader) loader=allowed ;;
    -*) usage ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[ "${#arguments[@]}" = 2 ] || usage
app=$(realpath "${arguments[0]}")
out=$(realpath -m "${arguments[1]}")
cd "$(dirname "$0")/.."
[ -f "$app/host.json" ] || { echo "$app has no host.json" >&2; exit 1; }

[ -n "$binary" ] || binary=$(deploy/build.sh)
if [ "$loader" = allowed ]; then
  echo "whether $binary is static was not looked at: the package is for this machine only" >&2
else
  deploy/is-static.sh "$binary"
fi

# Python's zipfile keeps the run bit, and is there where zip(1) is not.
python3 - "$app" "$binary" "$out" <<'PY'
import json, os, re, sys, zipfile

app, binary, out = sys.argv[1:]


def refuse(why):
    sys.exit(f"{app}: {why}")


def read_json(name):
    try:
        with open(os.path.join(app, name), encoding="utf-8-sig") as file:
            return json.load(file)
    except ValueError as error:
        refuse(f"{name} is not JSON: {error}")


# What the host starts is the entry of this very name.
handler = (read_json("host.json").get("customHandler") or {}).get("description") or {}
program = handler.get("defaultExecutablePath")
if not program:
    refuse('host.json has no customHandler.description.defaultExecutablePath; write "dbtick"')
if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", program):
    refuse(f"host.json starts {program!r}, which is no plain name of a file in the package; write \"dbtick\"")

entries = {program: (binary, 0o755), "host.json": (os.path.join(app, "host.json"), 0o644)}
functions = 0
for name in sorted(os.listdir(app)):
    if os.path.isfile(os.path.join(app, name, "function.json")):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,127}", name) or name.lower() == "host":
            refuse(f"the host takes no function of the name {name!r}")
        read_json(f"{name}/function.json")
        entries[f"{name}/function.json"] = (os.path.join(app, name, "function.json"), 0o644)
        functions += 1
if not functions:
    refuse("no directory in it has a function.json")

# Authorities that a connection or a webhook trusts, by a path in the app.
for directory, below, files in os.walk(app):
    below[:] = sorted(name for name in below if not name.startswith(".") and name != "node_modules")
    for name in sorted(files):
        if name.endswith((".pem", ".crt")):
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                text = file.read()
            if b"PRIVATE KEY" in text:
                refuse(f"{os.path.relpath(path, app)} holds a private key: move it out of the app")
            if b"BEGIN CERTIFICATE" in text:
                entries[os.path.relpath(path, app)] = (path, 0o644)

if out.endswith(".zip"):
    os.makedirs(os.path.dirname(out), exist_ok=True)
    # The same app makes the same bytes.
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, (path, mode) in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            with open(path, "rb") as file:
                package.writestr(entry, file.read())
else:
    os.makedirs(out, exist_ok=True)
    if os.listdir(out):
        sys.exit(f"{out} is not empty")
    for name, (path, mode) in sorted(entries.items()):
        target = os.path.join(out, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(path, "rb") as source, open(target, "wb") as file:
            file.write(source.read())
        os.chmod(target, mode)
PY
echo "packed $out"
