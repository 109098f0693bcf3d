#!/bin/sh
# Prints the arguments of go test that select the tests which call detector.CALL, and their packages.
# sh tools/spared.sh CALL...
set -eu
calls=$(printf '%s|' "$@")
found=$(grep -rlE --include='*_test.go' "detector\.(${calls%|})\(t\)" . | xargs awk -v calls="^\tdetector\\\\.(${calls%|})\\\\(t\\\\)" '
	/^func Test/ { name = $2; sub(/\(.*/, "", name) }
	$0 ~ calls { folder = FILENAME; sub(/\/[^\/]*$/, "", folder); print name, folder }')
printf -- '-run ^(%s)$' "$(echo "$found" | cut -d' ' -f1 | sort -u | paste -sd'|')"
echo "$found" | cut -d' ' -f2 | sort -u | sed 's/^/ /' | tr -d '\n'
