#!/bin/sh
# Adds to coordinator/testdata/upgrade the data folder of the current build, on which later builds are tested. Run it once a
# release, before formats change; never write over a file that is there.
set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: tools/fixture.sh NAME, such as v1}
file=$PWD/coordinator/testdata/upgrade/$name.tar.zst
[ ! -e "$file" ] || { echo "$file is there already" >&2; exit 1; }
mkdir -p "$(dirname "$file")"
PROBITY_FIXTURE=$file go test -count=1 -run '^TestWriteFixture$' ./coordinator
ls -l "$file"
