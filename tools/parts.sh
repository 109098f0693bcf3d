#!/bin/sh
# Runs a command and shows what it prints. When it fails, what failed in it is shown again at the end, and named in its last lines: the
# tests print some 28,000 lines.
# sh tools/summary.sh COMMAND [ARGUMENT...]
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
{
	"$@" 2>&1
	echo $? >"$dir/status"
} | tee "$dir/output"
status=$(cat "$dir/status")
if [ "$status" != 0 ]; then
	grep -vE '^(=== (RUN|PAUSE|CONT|NAME)|PASS$|ok )|^ *--- (PASS|SKIP)' "$dir/output" >"$dir/without-passed"
	failed='^ *--- FAIL|^FAIL.*[0-9]s$|^panic: |^fatal error: |DATA RACE|SKIPPED: |\*\*\*.*Error '
	printf '\n=== what failed, with the lines before and after it\n'
	grep -E -B 25 -A 15 "$failed" "$dir/without-passed" | tail -n 400
	printf '\n=== what failed\n'
	grep -E "$failed" "$dir/without-passed" | tail -n 20
fi
exit "$status"
