#!/bin/sh
# Run a command where no control group can be created, or in groups that the user nobody may divide (version 1):
#   tests/groups.sh none pytest tests/sandbox
#   tests/groups.sh own tests/unprivileged.sh tests/sandbox
# To be started as root. "none" covers the groups in a private mount namespace; "own" removes its groups at the end.
set -eu
how=$1
shift
if [ "$how" = none ]; then
    # A fork bomb that is not stopped in time stays within these processes.
    held=/sys/fs/cgroup/pids$(grep ":pids:" /proc/self/cgroup | cut -d: -f3 | sed 's#/$##')/tests-$$
    mkdir "$held"
    echo 600 > "$held/pids.max"
    echo $$ > "$held/cgroup.procs"
    exec unshare --mount sh -eu -c 'mount -t tmpfs -o ro tmpfs /sys/fs/cgroup; exec "$@"' sh "$@"
fi
made=
for controller in memory pids; do
    inside=$(grep ":$controller:" /proc/self/cgroup | cut -d: -f3)
    folder=/sys/fs/cgroup/$controller${inside%/}/tests-$$
    mkdir "$folder"
    chown 65534:65534 "$folder" "$folder/cgroup.procs"
    made="$made $folder"
done
status=0
sh -eu -c 'made=$1; shift; for folder in $made; do echo $$ > "$folder/cgroup.procs"; done; exec "$@"' sh "$made" "$@" || status=$?
for folder in $made; do
    rmdir "$folder"/*/ 2>/dev/null || true
    rmdir "$folder"
done
exit "$status"
