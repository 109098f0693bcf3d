#!/bin/sh
# Runs every fuzz target of the module for the given time (10m), or number of inputs (500x), each. A package is built once for all of its targets.
set -eu
time=${1:-3s}
found=$(go env GOCACHE)/fuzz/probity
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u >"$built/packages"
while read -r dir; do
	go test -c -fuzz . -o "$built/fuzz" "$dir"
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -c6-); do
		echo "fuzz $dir $target"
		(cd "$dir" && "$built/fuzz" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 1s -test.fuzzcachedir "$found/$dir")
	done
done <"$built/packages"
