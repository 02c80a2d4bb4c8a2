#!/usr/bin/env bash
# Install the lowest versions that pyproject.toml allows, and use them: the core, then the extras that are named.
# usage: tests/packaging/lowest.sh [extra …]
. "$(dirname "$0")/environment.sh"
environment lowest
extras=$(IFS=,; echo "$*")
with_torch "$@"
install --resolution lowest-direct ".${extras:+[$extras]}"
direct=$(python -c "
import re
from importlib.metadata import requires, version
chosen = set('$extras'.split(',')) - {''}
for line in requires('fedloom'):
    extra = re.search(r\"extra == '([^']+)'\", line)
    if extra is None or extra[1] in chosen:
        name = re.match(r'[\w.-]+', line)[0]
        print(name, version(name), end='; ')")
echo "Lowest versions: $direct$(python --version)"
for what in core "$@"; do smoke "$what"; done
