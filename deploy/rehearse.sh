#!/bin/sh
# The runbook, walked through on one machine: a coordinator and two probers in three network namespaces, with the commands of
# the units; one prober is broken as ProbityNodeDown describes it, and mended by what that section says. Needs root, Linux,
# ip and curl. Nothing leaves the machine: the namespaces have no way out, and DNS and mail servers are a simulated internet.
#
#   deploy/rehearse.sh [path of probity]      exit status 0: all as the runbook says; 77: not possible here
set -eu
probity=$(command -v "${1:-probity}") || { echo "rehearse: no ${1:-probity} here" >&2; exit 77; }
work=$(mktemp -d)
net=rehearse$$
pids=
rows=2000

say() { echo "rehearse: $*"; }
fail() { say "FAILED: $*" >&2; tail -n 5 "$work"/*.log >&2; exit 1; }
clean() {
	for pid in $pids; do kill "$pid" 2>/dev/null || :; done
	wait
	for n in hub p1 p2; do ip netns del "$net-$n" 2>/dev/null || :; done
	ip netns del "$net-lan" 2>/dev/null || :
	rm -rf "$work"
}
ip netns add "$net-lan" 2>/dev/null || { say "network namespaces are forbidden here" >&2; rm -rf "$work"; exit 77; }
trap clean EXIT
trap 'exit 1' INT TERM

# --- Three machines on one cable. hub also plays the mail internet, whose addresses begin with 10.78.
ip -n "$net-lan" link add cable type bridge
ip -n "$net-lan" link set cable up
machine() { # name address
	ip netns add "$net-$1"
	ip -n "$net-lan" link add "$1" type veth peer name eth0 netns "$net-$1"
	ip -n "$net-lan" link set "$1" master cable up
	ip -n "$net-$1" link set lo up
	ip -n "$net-$1" addr add "$2/24" dev eth0
	ip -n "$net-$1" link set eth0 up
	case $1 in
	hub) ip -n "$net-hub" route add local 10.78.0.0/16 dev lo ;;
	*) ip -n "$net-$1" route add 10.78.0.0/16 via 10.0.0.1 ;;
	esac
}
machine hub 10.0.0.1
machine p1 10.0.0.2
machine p2 10.0.0.3
on() { n=$1; shift; ip netns exec "$net-$n" "$@"; }
run() { # machine, name of the log, command: as a unit would, in the background
	n=$1 log=$2; shift 2
	ip netns exec "$net-$n" "$@" >>"$work/$log.log" 2>&1 &
	pid=$!
	pids="$pids $pid"
}
until_true() { # what, command
	what=$1; shift
	i=0
	until "$@" >/dev/null 2>&1; do
		i=$((i + 1))
		[ "$i" -lt 300 ] || fail "$what"
		sleep 0.2
	done
	say "$what"
}

# --- docs/fleet.md, steps 1 to 5: papers, each machine with its own alone.
papers=$work/papers
"$probity" certs init --dir "$papers" >/dev/null 2>&1
"$probity" certs coordinator hub --dir "$papers" >/dev/null
"$probity" certs node p1 p2 --dir "$papers" >/dev/null
for n in hub p1 p2; do
	mkdir -p "$work/$n/etc" "$work/$n/data"
	for f in ca.crt cluster.key "$n.crt" "$n.key"; do cp "$papers/$f" "$work/$n/etc/"; done
done
say "papers are made"

# The simulated internet: DNS and mail servers for hub and its cluster, reached over the cable.
"$probity" sim providers --speedup 36000 >"$work/providers.toml"
run hub sim "$probity" sim serve --speedup 36000 --network 10.78.0.0/16 --smtp-port 25 --dns 10.78.0.1:53 --http 127.0.0.1:8053
until_true "the simulated internet is up" grep -q "simulated internet" "$work/sim.log"

# Steps 6 to 9: the units' commands with the units' configuration files, paths and names apart.
config() { # machine, lines
	n=$1; shift
	{
		printf 'name = "%s"\ndata = "%s"\ncerts = "%s"\n' "$n" "$work/$n/data" "$work/$n/etc"
		printf 'dns = ["10.78.0.1:53"]\nallow-private-targets = true\n' # the simulated internet
		printf 'cluster-listen = "0.0.0.0:7946"\nadmin-listen = "127.0.0.1:9090"\nproviders = "%s"\n' "$work/providers.toml"
		printf '%s\n' "$@"
	} >"$work/$n/etc/probity.toml"
}
config hub 'listen = "127.0.0.1:8080"'
for n in p1 p2; do
	case $n in p1) address=10.0.0.2 ;; p2) address=10.0.0.3 ;; esac
	config "$n" 'join = ["10.0.0.1:7946"]' 'node-listen = "0.0.0.0:7947"' 'mail-from = "probe@example.org"' \
		"egress = [\"$address=mx.$n.example.org\"]"
done
coordinator() { run hub coordinator "$probity" coordinator --config "$work/hub/etc/probity.toml"; hub=$pid; }
prober() { run "$1" "$1" "$probity" prober --config "$work/$1/etc/probity.toml"; eval "$1=$pid"; }
"$probity" user add ops@example.org --role admin --credits 10000 --data "$work/hub/data" 2>/dev/null >&2
PROBITY_ADMIN_KEY=$("$probity" key create --user ops@example.org --name rehearsal --scope verify --scope jobs --scope admin --data "$work/hub/data" 2>/dev/null)
export PROBITY_ADMIN_KEY
coordinator
until_true "the coordinator is ready" on hub "$probity" health --ready
prober p1
prober p2
usable() { [ "$(on hub curl -sf 127.0.0.1:9090/metrics | grep -c '^probity_node_up{.*} 1$')" = "$1" ]; }
until_true "both probers take work" usable 2
on hub "$probity" cluster

# A list, so that there is something to lose.
api() { path=$1; shift; on hub curl -sf -H "Authorization: Bearer $PROBITY_ADMIN_KEY" "$@" "http://127.0.0.1:8080$path"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
"$probity" sim list --rows "$rows" >"$work/list.csv"
upload() { api /v1/verify/bulk -F "file=@$work/list.csv" | field job_id; }
state() { api "/v1/verify/bulk/$1" | field status; }
ended() { [ "$(state "$1")" = completed ]; }
whole() { # a job: every row is there
	api "/v1/verify/bulk/$1/results" >"$work/result.csv"
	"$probity" sim truth "$work/list.csv" >"$work/truth.csv"
	"$probity" sim score --truth "$work/truth.csv" --result "$work/result.csv" | tee "$work/score.json" | grep -q '"false_valid":0,"false_invalid":0' || fail "$(cat "$work/score.json")"
	grep -q '"missing_rows":0' "$work/score.json" || fail "$(cat "$work/score.json")"
}
first=$(upload)
until_true "a first list of $rows rows is verified" ended "$first"
whole "$first"
second=$(upload)
say "a second list is under way"

# --- Break one, as a mistaken change would: its certificate gives way to the other's.
say "p2 is stopped, and started with the wrong certificate"
kill "$p2" && wait "$p2" || :
cp "$work/p1/etc/p1.crt" "$work/p2/etc/p2.crt"
cp "$work/p1/etc/p1.key" "$work/p2/etc/p2.key"
prober p2
down() { on hub curl -sf 127.0.0.1:9090/metrics | grep -q '^probity_node_up{node="p2"} 0$'; }
until_true "ProbityNodeDown would fire: p2 takes no work" down

# --- Mend it by the alert's text: read the log; "certificate: it ended, or bears another name. See Rotation".
until_true "its log names the certificate" grep -qi certificate "$work/p2.log"
grep -i certificate "$work/p2.log" | tail -n 1
"$probity" certs show "$work/p2/etc/p2.crt"
kill "$p2" 2>/dev/null && wait "$p2" || :
rm "$papers/p2.crt" "$papers/p2.key"
"$probity" certs node p2 --dir "$papers" >/dev/null
cp "$papers/p2.crt" "$papers/p2.key" "$work/p2/etc/"
prober p2
until_true "both probers take work again" usable 2
until_true "the second list is verified" ended "$second"
whole "$second"

# --- Backup while a list is under way, loss, restore, as "Backup and restore" says.
third=$(upload)
on hub "$probity" backup --jobs --server http://127.0.0.1:8080 "$work/backup"
say "a backup was taken while a third list was $(state "$third")"
kill -9 "$hub" && wait "$hub" 2>/dev/null || :
mv "$work/hub/data" "$work/hub/broken"
"$probity" restore "$work/backup" --data "$work/hub/data"
cp "$work/hub/broken/coordinator.id" "$work/hub/data/"
coordinator
until_true "the restored coordinator is ready" on hub "$probity" health --ready
until_true "its probers came back" usable 2
until_true "the third list is verified" ended "$third"
whole "$third"
[ "$(api "/v1/verify/bulk/$second" | field credits_used)" = "$(api "/v1/verify/bulk/$third" | field credits_used)" ] || fail "the same list cost another sum"
on hub "$probity" credits balance --user ops@example.org --server http://127.0.0.1:8080
"$probity" certs key add --dir "$papers" >/dev/null
cp "$papers/cluster.key" "$work/hub/etc/" && kill -HUP "$hub"
until_true "a new gossip key is taken at SIGHUP" grep -q "msg=reloaded" "$work/coordinator.log"
on hub "$probity" audit --limit 5 --server http://127.0.0.1:8080
say "done: all as the runbook says"
