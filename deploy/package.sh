#!/usr/bin/env bash
# Packs a Functions app for deployment: deploy/package.sh APP_DIRECTORY OUT.zip
#
# The zip holds host.json, the function directories and `dbtick`, a binary that needs no loader of
# the machine it runs on, with its run bit set: the host starts the entry that host.json names.
set -euo pipefail
if [ "$#" != 2 ]; then
  echo "usage: deploy/package.sh APP_DIRECTORY OUT.zip" >&2
  exit 2
fi
app=$(realpath "$1")
out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
[ -f "$app/host.json" ] || { echo "$app has no host.json" >&2; exit 1; }

target=x86_64-unknown-linux-gnu
# A target is named so that build scripts and proc macros are not linked statically.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --quiet --target "$target" --bin dbtick
binary=target/$target/release/dbtick
if readelf -l "$binary" | grep -q INTERP; then
  echo "$binary still asks for a loader" >&2
  exit 1
fi

# Python's zipfile keeps the run bit, and is there where zip(1) is not.
python3 - "$app" "$binary" "$out" <<'PY'
import os, sys, zipfile

app, binary, out = sys.argv[1:]
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
    def add(path, name, mode):
        entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        with open(path, "rb") as file:
            package.writestr(entry, file.read())
    add(binary, "dbtick", 0o755)
    add(os.path.join(app, "host.json"), "host.json", 0o644)
    for name in sorted(os.listdir(app)):
        function = os.path.join(app, name, "function.json")
        if os.path.isfile(function):
            add(function, f"{name}/function.json", 0o644)
PY
echo "packed $out ($(stat -c %s "$out") bytes; glibc linked statically, for x86_64 Linux)"
