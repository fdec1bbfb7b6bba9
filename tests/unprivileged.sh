#!/bin/sh
# Run tests as the user nobody, who may create no control groups: tests/unprivileged.sh [PYTEST ARGUMENT ...]
# To be started as root, with the environment of the tests active. Nothing outside of a private mount namespace changes:
# there the home of root can be entered, because the interpreter may be installed in it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python=$(command -v python)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
chown 65534:65534 "$home"
closed=$(getent passwd 0 | cut -d: -f6)
# shellcheck disable=SC2016
unshare --mount sh -eu -c '
    python=$1 root=$2 home=$3 closed=$4
    shift 4
    place=$(readlink -f "$python")
    case $place in
        "$closed"/*)
            below=${place#"$closed"/}
            kept=$closed/${below%%/*}
            held=$(mktemp -d)
            mount --bind "$kept" "$held"
            mount -t tmpfs -o mode=755 tmpfs "$closed"
            mkdir "$kept"
            mount --bind "$held" "$kept"
            umount "$held"
            rmdir "$held"
            ;;
    esac
    cd "$root"
    exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \
        env HOME="$home" TMPDIR="$home" XDG_CACHE_HOME="$home/cache" \
        HYPOTHESIS_STORAGE_DIRECTORY="$home/hypothesis" \
        "$python" -m pytest -q -p no:cacheprovider --basetemp="$home/pytest" "$@"
' sh "$python" "$root" "$home" "$closed" "${@:-tests/sandbox}"
