#!/bin/sh
# Generates the Go code of the node's protocol from prober/wire/wire.proto. buf compiles it, so that no protoc is needed;
# buf and both plugins are pinned in tools/go.mod.
set -eu
cd "$(dirname "$0")/.."
mod=$PWD/tools/go.mod
cd prober/wire
go tool -modfile="$mod" buf generate --template '{"version":"v2","plugins":[
	{"local":["go","tool","-modfile='"$mod"'","protoc-gen-go"],"out":".","opt":["paths=source_relative"]},
	{"local":["go","tool","-modfile='"$mod"'","protoc-gen-go-grpc"],"out":".","opt":["paths=source_relative"]}]}' .
