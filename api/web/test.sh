#!/bin/sh
# Tests the dashboard: its code by a linter, its logic, then its pages in a real browser on a real service; the main story in Firefox
# as well, where that is installed. sh test.sh PROGRAM
# It installs what it needs, where it may. What cannot be had is skipped, and said aloud; continuous integration (CI=true) fails then.
set -eu
cd "$(dirname "$0")"
. ./node.sh

skip() {
	printf '\n*** SKIPPED: %s\n*** because %s.\n\n' "$1" "$2" >&2
	[ -z "${CI:-}" ] || exit 1
	exit 0
}

# browser finds Debian's chromium, or installs it as root.
browser() {
	for place in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
		[ -n "$place" ] && [ -x "$place" ] && return 0
	done
	why="there is no chromium on this machine: install it (Debian: sudo apt-get install chromium), or name one in CHROMIUM"
	command -v apt-get >/dev/null 2>&1 || return 1
	as=""
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null || return 1
		as="sudo -n"
	fi
	echo "web: there is no chromium on this machine; installing it with apt-get, for the test of the dashboard" >&2
	log=$(mktemp)
	$as env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update -q -o Acquire::Retries=3 && timeout 300 apt-get install -o Acquire::Retries=3 -y -q --no-install-recommends chromium' >"$log" 2>&1 && rm "$log" && return 0
	tail -n 5 "$log" >&2
	rm "$log"
	why="apt-get could not install chromium"
	return 1
}

enough_node || skip "all tests of the dashboard" "$why; they need 20.19 or later"
packages || skip "all tests of the dashboard" "$why"
npm run --silent lint
npm test --silent
[ -f dist/index.html ] || skip "the dashboard in a browser" "it is not built: run make web build"
browser || skip "the dashboard in a browser" "$why"
node e2e/run.mjs "$1"
E2E_BROWSER=firefox node e2e/run.mjs "$1" newcomer
