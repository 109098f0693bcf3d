#!/bin/sh
# Draws docs/img/terminal.svg: the first commands of a new user, on a simulated internet of this machine.
#
#   sh tools/recording.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
sim=
work=$(mktemp -d)
trap 'kill $sim 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$root"
CGO_ENABLED=0 go build -o "$work/probity" ./cmd/probity
CGO_ENABLED=0 go build -C tools -o "$work/recording" ./recording
cd "$work"
PATH=$work:$PATH

probity sim serve --speedup 36000 --dns 127.0.0.1:0 --http 127.0.0.1:0 --smtp-port -1 2>ready &
sim=$!
until grep -qs referee ready; do kill -0 "$sim" && sleep 0.1; done
PROBITY_DNS=$(sed -n 's/.*DNS at \([0-9.:]*\),.*/\1/p' ready)
PROBITY_SMTP_PORT=$(sed -n 's/.*SMTP at port \([0-9]*\),.*/\1/p' ready)
probity sim providers --speedup 36000 >overrides.toml
PROBITY_PROVIDERS=overrides.toml
PROBITY_ALLOW_PRIVATE_TARGETS=true
PROBITY_EGRESS=127.0.0.1=mx.prober.example
PROBITY_MAIL_FROM=probe@prober.example
export PATH PROBITY_DNS PROBITY_SMTP_PORT PROBITY_PROVIDERS PROBITY_ALLOW_PRIVATE_TARGETS PROBITY_EGRESS PROBITY_MAIL_FROM

probity sim list --rows 2000 >list.csv
recording -o "$root/docs/img/terminal.svg" \
    'probity verify elena.vovihi75094@gmail.com granite@granite-studio.example' \
    'probity verify list.csv -o result.csv 2>&1 | grep -v "^running"'
