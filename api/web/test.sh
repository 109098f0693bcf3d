#!/bin/sh
# Tests the dashboard: its logic, then its pages in a real browser on a real service. sh test.sh PROGRAM
# It installs what it needs. What cannot be had here is skipped, and said aloud.
set -eu
cd "$(dirname "$0")"
. ./node.sh

skip() {
	printf '\n*** SKIPPED: %s\n*** because %s.\n\n' "$1" "$2" >&2
	exit 0
}

# browser finds or installs Debian's chromium.
browser() {
	for place in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
		[ -n "$place" ] && [ -x "$place" ] && return 0
	done
	command -v apt-get >/dev/null 2>&1 || return 1
	as=""
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null || return 1
		as="sudo -n"
	fi
	echo "web: installing chromium with apt-get, for the test of the dashboard" >&2
	$as env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update -q && timeout 300 apt-get install -y -q --no-install-recommends chromium' >/dev/null 2>&1
}

enough_node || skip "all tests of the dashboard" "$why; they need 20.19 or later"
packages || skip "all tests of the dashboard" "$why"
npm test --silent
[ -f dist/index.html ] || skip "the dashboard in a browser" "it is not built: run make web build"
browser || skip "the dashboard in a browser" "there is no chromium, and it could not be installed with apt-get"
node e2e/run.mjs "$1"
