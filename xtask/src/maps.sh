#!/bin/bash
# Every query of every scenario, by each method, in both directions, one check on each core.
#
# usage: maps.sh ROUNDHOUSE [FOLDER]
# The maps of the repository, and those of FOLDER (the MovingAI sets), each with the rule of its
# lengths. A path that is not legal or not optimal fails, and the check says which.
set -euo pipefail
export roundhouse=$1
checks() { # FOLDER RULE
    # A* takes longest by far, so it comes first and leaves no core alone at the end.
    for method in astar jps jps+; do
        find "$1" -maxdepth 1 -name '*.scen' -printf "$2 $method %p\n" | sort
    done
}
{
    checks data/maps one-obstacle
    [[ $# -lt 2 ]] || checks "$2" no-obstacle
} >"${list:=$(mktemp)}"
trap 'rm -f "$list"' EXIT
grep -q . "$list" || { echo "maps: expected scenarios (*.scen), found none" >&2; exit 1; }
xargs -d '\n' -P "$(nproc)" -I{} bash -c '
    read -r rule method scenario <<<"$1"
    "$roundhouse" path check --json --rule "$rule" --algorithm "$method" --scen "$scenario"
' _ {} <"$list"
