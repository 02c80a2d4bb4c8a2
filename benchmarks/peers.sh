#!/usr/bin/env bash
# Makes one virtual environment a peer. Usage: benchmarks/peers.sh [FOLDER]   (default .peers)
# An environment that was made by the same lines of this script is left alone. PYTHON chooses the interpreter.
set -euo pipefail

case ${1:-} in -*) echo "usage: $0 [FOLDER]" >&2 && exit 2 ;; esac
mkdir -p "${1:-.peers}"
folder=$(cd "${1:-.peers}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"

# make NAME STEP...: an environment, and one `pip install` a step.
make() {
    local name=$1 step wanted
    local at="$folder/$name" stamp="$folder/$name.installed"
    shift
    wanted=$(printf '%s\n' "$@" && cat flower-requirements.txt)
    if [ -x "$at/bin/pip" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        echo "$name: ready"
        return
    fi
    echo "$name: installing"
    rm -f "$stamp"
    [ -x "$at/bin/pip" ] || "${PYTHON:-python3}" -m venv "$at"
    for step in "$@"; do
        # shellcheck disable=SC2086  # a step is several words
        "$at/bin/pip" install --quiet --disable-pip-version-check $step
    done
    printf '%s\n' "$wanted" >"$stamp"
}

make torch "torch==2.13.0 numpy"
make pfl "torch==2.13.0 pfl[pytorch]==0.6.0"
# FedJAX needs a jax that still has jax.tree_map, and that jax a haiku of its time.
make fedjax "fedjax==0.0.17 jax==0.4.30 jaxlib==0.4.30 dm-haiku==0.0.13"
# Flower asks for a certifi that some indexes do not have: its other requirements first, then Flower by itself.
make flower "torch==2.13.0 ray==2.55.1 --requirement flower-requirements.txt" "--no-deps flwr==1.42.0"
