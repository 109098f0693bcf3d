#!/bin/sh
# Runs every fuzz target of the module for the given time (10m), or number of inputs (500x), each. A package is built once for
# all of its targets, without what debuggers read.
# sh tools/fuzz.sh TIME [unguided]: unguided builds what tests build, without the counters of branches by which a long run finds new inputs.
set -eu
time=${1:-3s}
counters="-fuzz ."
[ "${2:-}" != unguided ] || counters=""
found=$(go env GOCACHE)/fuzz/probity
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u >"$built/packages"
while read -r dir; do
	# shellcheck disable=SC2086
	go test -c $counters -vet=off -ldflags=-w -o "$built/fuzz" "$dir"
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -c6-); do
		echo "fuzz $dir $target"
		(cd "$dir" && "$built/fuzz" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 1s -test.fuzzcachedir "$found/$dir")
	done
done <"$built/packages"
