#!/usr/bin/env bash
# Runs the commands in a page's table, the one that ran longest ago first, and writes
# to the table how each one ended. usage: periodic.sh page pattern commit
set -euo pipefail
page=$1 pattern=$2 commit=${3:0:12}

mapfile -t commands < <(sed -En 's/^\| `([^`]+)` \|.*\|(.*)\|$/\2\t\1/p' "$page" | sort -s -k1,1 | cut -f2 | grep -E -- "$pattern" || true)
if [ ${#commands[@]} = 0 ]; then
  echo "error: no command in $page matches $pattern" >&2
  exit 1
fi
failed=()
for command in "${commands[@]}"; do
  echo "##### $command"
  start=$SECONDS result=passed
  bash -c "$command" || { result='**failed**'; failed+=("$command"); }
  awk -F' *[|] *' -v command="\`$command\`" -v result="$result" -v minutes=$(((SECONDS - start + 59) / 60)) -v at="$(date -u +%F), \`$commit\`" '
    $2 == command { $0 = "| " $2 " | " $3 " | " result " | " minutes " | " at " |" } { print }' "$page" >"$page.new"
  mv "$page.new" "$page"
  echo "##### $command: $result, in $((SECONDS - start)) s"
done
[ ${#failed[@]} = 0 ] || { printf 'error: failed: %s\n' "${failed[@]}" >&2; exit 1; }
