#!/bin/sh
# Generates the Go code of the node's protocol from prober/wire/frames/wire.proto. buf compiles it, so that no protoc is needed;
# buf and both plugins are pinned in tools/go.mod. With "check" it only checks that the generated code and its source
# have not changed since the last run.
set -eu
cd "$(dirname "$0")/.."
mod=$PWD/tools/go.mod
cd prober/wire/frames
if [ "${1:-}" = check ]; then
	sha256sum --check --quiet wire.sum || { echo "prober/wire/frames: run make generate" >&2; exit 1; }
	exit 0
fi
go tool -modfile="$mod" buf generate --template '{"version":"v2","plugins":[
	{"local":["go","tool","-modfile='"$mod"'","protoc-gen-go"],"out":".","opt":["paths=source_relative"]},
	{"local":["go","tool","-modfile='"$mod"'","protoc-gen-go-grpc"],"out":".","opt":["paths=source_relative"]}]}' .
sha256sum wire.proto wire.pb.go wire_grpc.pb.go >wire.sum
