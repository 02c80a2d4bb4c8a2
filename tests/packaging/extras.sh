#!/usr/bin/env bash
# Install each extra in a fresh environment of its own, at the newest versions, and train a tiny model through it.
# usage: tests/packaging/extras.sh [extra …]     (by default all but gpu and dev)
. "$(dirname "$0")/environment.sh"
[ $# -gt 0 ] || set -- hdf5 topology mpi keras torch flax equinox sklearn tensorflow ray federation
wrong=()
for extra in "$@"; do
    environment "$extra"
    with_torch "$extra"
    if install ".[$extra]" && smoke "$extra"; then echo "$extra: $(size) MB with everything it needs"; else wrong+=("$extra"); fi
    rm -rf "$VIRTUAL_ENV"
done
[ ${#wrong[@]} -eq 0 ] || { echo "Failed: ${wrong[*]}"; exit 1; }
