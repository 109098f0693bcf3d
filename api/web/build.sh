#!/bin/sh
# Builds the dashboard into dist, from where the Go build embeds it. Where there is no Node, or an old one, or no registry to
# fetch packages from, nothing changes and nothing fails: the program then serves the page that says how to get the dashboard.
set -eu
cd "$(dirname "$0")"
. ./node.sh
if ! enough_node || ! packages; then
	echo "web: $why; the dashboard is left out. To get it: install Node 20.19 or later and run make web build" >&2
	exit 0
fi
echo "web: building the dashboard" >&2
npm run --silent generate >/dev/null
npm run --silent check
rm -rf .dist
npm run --silent build -- --logLevel warn --outDir .dist
# Browsers read Brotli over TLS, and it is an eighth smaller. It takes long: the reference, which is large, goes without.
node --input-type=commonjs -e '
const { readFileSync, writeFileSync } = require("node:fs");
const { brotliCompressSync } = require("node:zlib");
for (const name of process.argv.slice(1)) writeFileSync(`${name}.br`, brotliCompressSync(readFileSync(name)));
' .dist/assets/*.js .dist/assets/*.css
npm run --silent build -- --mode docs --logLevel warn --outDir .dist
# The server sends these as they are, and unpacks them for the rare client without gzip. Without a time in it gzip gives the same
# bytes each time.
for file in .dist/assets/*.js .dist/assets/*.css; do
	gzip -9 -n "$file"
done
# Names change with contents: a Go build that runs meanwhile loses no file that the new page has as well.
mkdir -p dist/assets
cp .dist/assets/* dist/assets/
cp .dist/docs.html dist/docs.html
cp .dist/index.html dist/index.html
for file in dist/assets/*; do
	[ -f ".$file" ] || rm "$file"
done
rm -rf .dist
touch dist/.built
