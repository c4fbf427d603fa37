#!/usr/bin/env bash
# Usage: gate-on.sh TREE DIR
# Writes DIR/overlay.json for "go test -overlay": the tree as it is, but for the
# feature gate ACRequeueAfter, which is on by default. So upstream's tests run
# with the gate on, and no file of the tree knows about it.
set -euo pipefail
tree=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
features=pkg/features/kube_features.go

awk '/^\tACRequeueAfter: \{/ { found = 1 }
     found && !done && sub(/Default: false/, "Default: true") { done = 1 }
     { print }
     END { exit !done }' "$tree/$features" >"$dir/kube_features.go.new" ||
  { echo "error: no gate ACRequeueAfter, off by default, in $tree/$features" >&2; exit 1; }
# An unchanged file keeps its time, and Go its cache.
cmp -s "$dir/kube_features.go.new" "$dir/kube_features.go" || cp "$dir/kube_features.go.new" "$dir/kube_features.go"
rm "$dir/kube_features.go.new"
printf '{"Replace": {"%s": "%s"}}\n' "$tree/$features" "$dir/kube_features.go" >"$dir/overlay.json"
