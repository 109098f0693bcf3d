#!/bin/sh
# Makes targets one after another, also after one that failed, and ends with a line for each: its time and its result. Exit status 1
# means that one failed. sh tools/nightly.sh TARGET...
set -eu
cd "$(dirname "$0")/.."
table=$(mktemp)
trap 'rm -f "$table"' EXIT
trap 'exit 130' INT TERM
failed=0
for target in "$@"; do
	began=$(date +%s)
	verdict=passed
	echo "=== make $target"
	"${MAKE:-make}" --no-print-directory "$target" || { verdict="FAILED ($?)"; failed=$((failed + 1)); }
	printf '%-12s %6d s  %s\n' "$target" "$(($(date +%s) - began))" "$verdict" >>"$table"
done
printf '\n=== nightly\n'
cat "$table"
[ "$failed" = 0 ] || { echo "$failed of $# failed" >&2; exit 1; }
