#!/usr/bin/env bash
# Gives the relay a new key of its own, and puts it where the setting DBTICK_RELAY_KEY points: into the vault.
#   deploy/relay-key.sh GROUP APP VAULT FUNCTION            makes one; those before it stay good
#   deploy/relay-key.sh --retire GROUP APP VAULT FUNCTION   deletes all that this script made but the newest
#
# Between the two, look that ticks succeed: then nobody uses the old key any more. Keys are never printed, and never stand in
# a command line.
set -euo pipefail

retire=no
if [ "${1:-}" = --retire ]; then
  retire=yes
  shift
fi
if [ "$#" != 4 ]; then
  echo "usage: deploy/relay-key.sh [--retire] GROUP APP VAULT FUNCTION" >&2
  exit 2
fi
group=$1 app=$2 vault=$3 function=$4
prefix=dbtick-
keys() { az functionapp function keys "$1" --resource-group "$group" --name "$app" --function-name "$function" "${@:2}"; }

if [ "$retire" = yes ]; then
  # Names are of the time when they were made, so the newest is the last.
  names=$(keys list --output json | python3 -c '
import json, sys
names = sorted(name for name in json.load(sys.stdin) if name.startswith(sys.argv[1]))
print("\n".join(names[:-1]))' "$prefix")
  for name in $names; do
    keys delete --key-name "$name" --output none
    echo "deleted the key $name of $function"
  done
  exit 0
fi

# Of this user alone.
file=$(mktemp)
trap 'rm -f "$file"' EXIT
name=$prefix$(date -u +%Y%m%dT%H%M%SZ)
# Without a value the host makes one.
keys set --key-name "$name" --output json | python3 -c '
import json, sys
sys.stdout.write(json.load(sys.stdin)["value"])' >"$file"
az keyvault secret set --vault-name "$vault" --name DBTICK-RELAY-KEY --file "$file" --encoding utf-8 --output none
# A setting that points into the vault is read again within a day, or now.
id=$(az functionapp show --resource-group "$group" --name "$app" --query id --output tsv)
az rest --method post --url "$id/config/configreferences/appsettings/refresh?api-version=2022-03-01" --output none
echo "made the key $name of $function; once ticks succeed: deploy/relay-key.sh --retire $group $app $vault $function"
