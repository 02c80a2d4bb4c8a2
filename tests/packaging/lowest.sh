#!/usr/bin/env bash
# Install the lowest versions that pyproject.toml allows, and use them: the core, then the extras that are named.
# usage: tests/packaging/lowest.sh [extra …]
. "$(dirname "$0")/environment.sh"
environment lowest
extras=$(IFS=,; echo "$*")
with_torch "$@"
install --resolution lowest-direct ".${extras:+[$extras]}"
direct=$(python -c "
from importlib.metadata import requires, version
from packaging.requirements import Requirement
for wanted in map(Requirement, requires('fedloom')):
    if wanted.marker is None or any(wanted.marker.evaluate({'extra': extra}) for extra in '$extras'.split(',')):
        print(wanted.name, version(wanted.name), end='; ')")
echo "Lowest versions: $direct$(python --version)"
for what in core "$@"; do smoke "$what"; done
