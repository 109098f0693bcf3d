#!/bin/sh
# Builds the dashboard into dist, from where the Go build embeds it. Without Node nothing changes and nothing fails: the
# program then serves the page that says how to get the dashboard.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null 2>&1; then
	echo "web: there is no Node on this machine; the dashboard is left out (install Node 20.19 or later and run make web build)" >&2
	exit 0
fi
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
	npm ci --silent
fi
npm run --silent generate >/dev/null
npm run --silent check
rm -rf dist/assets dist/index.html
npm run --silent build -- --logLevel warn
# The server sends these as they are. gzip without a time in it gives the same bytes each time.
for file in dist/assets/*.js dist/assets/*.css; do
	gzip -9 -n -k "$file"
done
