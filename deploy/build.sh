#!/usr/bin/env bash
# Builds the program as it is deployed, and prints where it is. It asks for no loader of the machine that it runs on: made
# with musl where that is installed, else with glibc linked statically. Which it was is said on standard error.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=$(uname -m)
# A target is named in either case, so that build scripts and proc macros are not linked statically.
target=$arch-unknown-linux-musl
if [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && command -v musl-gcc >/dev/null; then
  # For the C code of dependencies only: as the linker, musl-gcc would make a program that asks for a loader.
  export "CC_${target//-/_}=musl-gcc"
  how="with musl"
else
  target=$arch-unknown-linux-gnu
  export RUSTFLAGS="-C target-feature=+crt-static"
  how="with glibc, because the target $arch-unknown-linux-musl or musl-gcc is not installed"
fi
cargo build --locked --release --quiet --target "$target" --bin dbtick
program=$(realpath "${CARGO_TARGET_DIR:-target}")/$target/release/dbtick
deploy/is-static.sh "$program"
echo "built a static program for $arch Linux $how" >&2
echo "$program"
