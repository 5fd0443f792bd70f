#!/bin/sh
# Secrets come as files: PGPASSWORD_FILE names the file whose content becomes PGPASSWORD. They may hold any character
# but a line break, since nothing writes them into an address.
set -eu
for name in PGPASSWORD AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; do
    eval "file=\${${name}_FILE:-}"
    if [ -n "$file" ]; then
        value=$(cat "$file")
        export "$name=$value"
    fi
done
exec "$@"
