#!/bin/sh
# Runs the linters: staticcheck; errcheck, without tests and without the functions of errcheck.txt, whose errors are seen elsewhere or
# change nothing (a deadline, the end of what was only read, a print to a terminal or to a writer that keeps its error); unparam; and
# revive with the rules of revive.toml. They are tools of a module of their own, so that they stay out of go.mod.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
lint() {
	"$go" tool -modfile=tools/go.mod "$@"
}
lint staticcheck ./...
lint errcheck -ignoretests -exclude tools/errcheck.txt ./...
lint unparam ./...
lint revive -config tools/revive.toml -set_exit_status ./...
