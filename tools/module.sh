#!/bin/sh
# Gives the module, and the modules inside it, the path at which it is published: sh tools/module.sh HOST/PATH
# It edits every go.mod and import, and what docs say to import. Run it once, in the copy that is published.
set -eu
cd "$(dirname "$0")/.."
new=${1:?"usage: sh tools/module.sh HOST/PATH"}
old=$(sed -n 's/^module //p' go.mod)
go mod edit -module "$new"
find . -name go.mod -not -path './go.mod' -not -path '*/node_modules/*' | while read -r file; do
	inner=$(sed -n 's/^module //p' "$file")
	go mod edit -module "$new${inner#"$old"}" "$file"
done
import="^((import |[[:space:]]+)?([A-Za-z_.][A-Za-z0-9_]* )?\")$old((/[^\"]*)?\"( //.*)?)\$"
find . \( -name '*.go' -o -name '*.md' \) -not -path '*/node_modules/*' -not -path './.git/*' |
	xargs grep -lE "$import" | while read -r file; do
	sed -E "s#$import#\\1$new\\4#" "$file" >"$file.renamed"
	cat "$file.renamed" >"$file" # which keeps the mode of the file
	rm "$file.renamed"
	case $file in
	*.go) gofmt -w "$file" ;;
	esac
done
