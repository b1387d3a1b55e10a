# What the official image does, as far as the tests need it.
set -eu
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA"
	chown postgres:postgres "$PGDATA"
	chmod 0700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --clear-groups sh "$0"
fi
mkdir -p "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
	initdb -D "$PGDATA" -U "$POSTGRES_USER" -A scram-sha-256 --pwfile=/tmp/password -E UTF8 \
		--locale=C.UTF-8 > /dev/null
	rm /tmp/password
	echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
	echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres > /dev/null
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
