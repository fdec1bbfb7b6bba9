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
unshare --mount sh -eu -c '
    python=$1 root=$2 home=$3
    shift 3
    place=$(readlink -f "$python")
    case $place in
        /root/*)
            kept=/root/$(echo "$place" | cut -d/ -f3)
            held=$(mktemp -d)
            mount --bind "$kept" "$held"
            mount -t tmpfs -o mode=755 tmpfs /root
            mkdir "$kept"
            mount --bind "$held" "$kept"
            umount "$held"
            rmdir "$held"
            ;;
    esac
    cd "$root"
    exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \
        env HOME="$home" TMPDIR="$home" XDG_CACHE_HOME="$home/cache" \
        "$python" -m pytest -q -p no:cacheprovider --basetemp="$home/pytest" "$@"
' sh "$python" "$root" "$home" "${@:-tests/sandbox}"
