#!/bin/sh
# Makes a target, then others two at a time, also after one that failed. The output of each is printed whole when it ends; until then
# there is a line for each package that ends, and one a minute if none does. When some failed, what failed in them is shown again at
# the end, as the tests print some 28,000 lines. The last lines say what became of each: passed, failed, or not run.
# sh tools/parts.sh FIRST TARGET...     The environment has MAKE, and with QUIET the seconds without a line, for tests.
set -u
first=$1
shift
parts="$first $*"
quiet=${QUIET:-60}
dir=$(mktemp -d) || exit 1
began=$(date +%s)
trap 'rm -rf "$dir"' EXIT
trap ': >"$dir/over"; wait; verdicts; exit 130' INT TERM
export dir

# status is the exit status of a part that ended, and nothing for another.
status() { cat "$dir/$1.status" 2>/dev/null; }

seconds() { echo $(($(date +%s) - began)); }

# verdicts prints a line for each part, and fails unless all passed.
verdicts() {
	bad=0
	printf '\n'
	for part in $parts; do
		case $(status "$part") in
		0) verdict=passed ;;
		'') verdict='not run' ;;
		*) verdict=failed ;;
		esac
		[ "$verdict" = passed ] || bad=1
		printf 'make %-10s  %s\n' "$part" "$verdict"
	done
	return $bad
}

# make_parts makes the first part, and the others if that passed. A status appears whole: its file is renamed.
make_parts() {
	make_one='${MAKE:-make} --no-print-directory "$1" >"$dir/$1.output" 2>&1; echo $? >"$dir/$1.new"; mv "$dir/$1.new" "$dir/$1.status"'
	sh -c "$make_one" sh "$first"
	[ "$(status "$first")" != 0 ] || printf '%s\n' "$@" | xargs -P 2 -n 1 sh -c "$make_one" sh
}

# report prints what is new: lines of packages, of those parts that run, and the output of those that ended.
report() {
	for part in $parts; do
		[ -f "$dir/$part.output" ] && [ ! -f "$dir/$part.printed" ] || continue
		code=$(status "$part")
		grep -E '^(ok|FAIL|fuzz) ?[[:space:]]' "$dir/$part.output" >"$dir/lines"
		seen=$(cat "$dir/$part.seen" 2>/dev/null || echo 0)
		tail -n +$((seen + 1)) "$dir/lines" | sed "s/^/$part: /" >"$dir/fresh"
		wc -l <"$dir/lines" >"$dir/$part.seen"
		[ -s "$dir/fresh" ] && said=$(seconds)
		cat "$dir/fresh"
		[ -n "$code" ] || continue
		said=$(seconds)
		printf '\n=== make %s: exit status %s, after %s s\n' "$part" "$code" "$said"
		cat "$dir/$part.output"
		: >"$dir/$part.printed"
	done
	if [ $(($(seconds) - said)) -ge "$quiet" ]; then
		said=$(seconds)
		printf 'make: %s s;' "$said"
		for part in $parts; do
			[ -f "$dir/$part.output" ] && [ -z "$(status "$part")" ] && printf ' %s runs,' "$part"
		done
		printf ' no package has ended for %s s\n' "$quiet"
	fi
}

# report_all reports until the parts are over.
report_all() {
	said=0
	while [ ! -f "$dir/over" ]; do
		sleep 1
		report
	done
	report
}

# The parts are in the foreground: what runs behind a shell ignores SIGINT, and so would the programs that tests interrupt.
report_all &
make_parts "$@"
: >"$dir/over"
wait

for part in $parts; do
	[ "$(status "$part")" = 0 ] || [ ! -f "$dir/$part.output" ] || cat "$dir/$part.output"
done | grep -vE '^(=== (RUN|PAUSE|CONT|NAME)|PASS$|ok )|^ *--- (PASS|SKIP)' >"$dir/without-passed"
if [ -s "$dir/without-passed" ]; then
	failed='^ *--- FAIL|^FAIL.*[0-9]s$|^panic: |^fatal error: |DATA RACE|SKIPPED: |\*\*\*.*Error '
	printf '\n=== what failed, with the lines before and after it\n'
	grep -E -B 25 -A 15 "$failed" "$dir/without-passed" | tail -n 400
	printf '\n=== what failed\n'
	grep -E "$failed" "$dir/without-passed" | tail -n 20
fi
verdicts
