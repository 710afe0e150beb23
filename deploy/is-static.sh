#!/usr/bin/env bash
# Fails if a program asks for a loader of the machine that it runs on: deploy/is-static.sh PROGRAM
set -euo pipefail
# Not in a pipe: what is no program at all must fail too, and not be taken for one without a loader.
headers=$(readelf --program-headers --wide "$1")
case "$headers" in
  *INTERP*)
    echo "$1 asks for a loader of the machine that it runs on: a static one is needed, as deploy/build.sh makes it" >&2
    exit 1
    ;;
  *LOAD*) ;;
  *)
    echo "$1 is no program that could be run" >&2
    exit 1
    ;;
esac
