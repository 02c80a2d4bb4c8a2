# Functions of lowest.sh, extras.sh and flower.sh, which source this file from the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
UV=${UV:-$(test -x .venv/bin/uv && echo "$PWD/.venv/bin/uv" || echo uv)}
export UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
unset PYTHONPATH  # what is tried is what is installed
HERE=$(mktemp -d)
trap 'rm -rf "$HERE"' EXIT
export XDG_CACHE_HOME=$HERE/cache  # compiled programs of other versions of JAX are not read

# environment NAME: make a fresh one, in which `install` and `python` work from then on.
environment() {
    "$UV" venv --quiet --python "${PYTHON:-python3}" "$HERE/$1"
    export VIRTUAL_ENV=$HERE/$1
    PATH=$VIRTUAL_ENV/bin:$PATH
}

install() { "$UV" pip install --quiet "$@"; }

# with_torch EXTRA …: PyTorch comes first and alone, at the version that is tested, so that a build for CPUs is used where there is one.
with_torch() { case " $* " in *" torch "*) install torch==2.13.0 ;; esac }

size() { du -sm "$VIRTUAL_ENV" | cut -f1; }

smoke() { python tests/packaging/smoke.py "$1" 2>"$HERE/errors" || { cat "$HERE/errors"; return 1; }; }
