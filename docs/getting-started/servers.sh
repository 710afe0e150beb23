#!/usr/bin/env bash
# Private servers for docs/getting-started.md: PostgreSQL, MariaDB and the storage emulator Azurite, on loopback, in a
# temporary directory. They end with this script (Ctrl-C), and so does everything in them.
# What is missing is installed by ./tests/tools. Other ports: PG_PORT, MARIADB_PORT, BLOB_PORT, QUEUE_PORT, TABLE_PORT.
set -euo pipefail
repository="$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

pg_port="${PG_PORT:-25432}" mariadb_port="${MARIADB_PORT:-23306}"
blob_port="${BLOB_PORT:-10000}" queue_port="${QUEUE_PORT:-10001}" table_port="${TABLE_PORT:-10002}"

missing() {
  echo "servers.sh: $1 is missing; ./tests/tools installs it (on Debian and Ubuntu)" >&2
  exit 1
}

for path in /usr/lib/postgresql/*/bin; do
  [ -x "$path/initdb" ] && PATH="$path:$PATH"
done
PATH="$PATH:/usr/sbin"
command -v initdb >/dev/null || missing PostgreSQL
command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null || missing MariaDB
if command -v azurite >/dev/null; then
  azurite=(azurite)
else
  lock="$(sha256sum "$repository/tests/azurite/package-lock.json" | cut -c1-12)"
  azurite=("${XDG_CACHE_HOME:-$HOME/.cache}/dbtick-tests/azurite-$lock/node_modules/.bin/azurite")
  [ -x "${azurite[0]}" ] || missing Azurite
fi

directory="$(mktemp -d /tmp/dbtick-servers.XXXXXX)"
as=()
if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses to run as root.
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  chown 65534:65534 "$directory"
fi
servers=()
end() {
  trap - EXIT INT TERM
  # One of these each of them takes for: close your connections, and end.
  for server in "${servers[@]}"; do kill -INT "$server" 2>/dev/null || true; done
  for server in "${servers[@]}"; do kill -TERM "$server" 2>/dev/null || true; done
  wait "${servers[@]}" 2>/dev/null || true
  rm -rf "$directory"
}
trap end EXIT
trap 'exit 0' INT TERM

# Runs something to its end; what it said is shown only if it failed.
quietly() {
  "${as[@]}" "$@" >"$directory/log" 2>&1 </dev/null || { cat "$directory/log" >&2; exit 1; }
}

# Servers ignore a Ctrl-C of the terminal, because they have a session of their own: we end them.
start() {
  local log="$1" ready="$2"
  shift 2
  : >"$log"
  setsid "$@" >"$log" 2>&1 </dev/null &
  servers+=($!)
  until grep -q "$ready" "$log"; do
    if ! kill -0 "$!" 2>/dev/null || grep -q EADDRINUSE "$log"; then
      cat "$log" >&2
      exit 1
    fi
    sleep 0.1
  done
}

cd "$directory"
echo "starting PostgreSQL, MariaDB and Azurite …"
quietly initdb -D "$directory/postgres" -U postgres --auth=trust --no-sync
start "$directory/postgres.log" "ready to accept connections" "${as[@]}" postgres -D "$directory/postgres" -p "$pg_port" \
  -c listen_addresses=127.0.0.1 -c unix_socket_directories="$directory" -c fsync=off
quietly psql -q -h 127.0.0.1 -p "$pg_port" -U postgres -c "CREATE DATABASE shop"

quietly mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db \
  --innodb-log-file-size=4M --datadir="$directory/mariadb"
cat >"$directory/init.sql" <<END
CREATE DATABASE IF NOT EXISTS shop;
CREATE USER IF NOT EXISTS shop@'127.0.0.1' IDENTIFIED BY 'shop';
GRANT ALL ON shop.* TO shop@'127.0.0.1';
END
start "$directory/mariadb.log" "ready for connections" "${as[@]}" mariadbd --no-defaults --datadir="$directory/mariadb" \
  --socket="$directory/mariadb.socket" --pid-file="$directory/mariadb.pid" --init-file="$directory/init.sql" \
  --bind-address=127.0.0.1 --skip-name-resolve --port="$mariadb_port" \
  --innodb-log-file-size=4M --innodb-flush-log-at-trx-commit=0

start "$directory/azurite.log" "Queue service is successfully listening" "${azurite[@]}" --inMemoryPersistence --skipApiVersionCheck \
  --disableTelemetry --blobPort "$blob_port" --queuePort "$queue_port" --tablePort "$table_port"

cat <<END
PostgreSQL  postgres://postgres@127.0.0.1:$pg_port/shop
MariaDB     mysql://shop:shop@127.0.0.1:$mariadb_port/shop
Azurite     queues on port $queue_port, blobs on port $blob_port
Ctrl-C ends them.
END
wait -n
echo "servers.sh: one of the servers has ended; the last lines of their logs:" >&2
for log in "$directory"/*.log; do tail -n 3 "$log" >&2; done
exit 1
