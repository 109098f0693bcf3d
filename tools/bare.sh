#!/bin/sh
# Does what README tells a newcomer, on a Debian that has only the packages README names: an ordinary user makes TARGETS in a
# path with a space, first without a C compiler and Node, then with both. All are made whatever became of the others. The
# output ends with the time and the result of each.
#
#   tools/bare.sh CACHE TARGET...     as root; CACHE has the system named bare, which make bare makes with tools/chroots.sh
#
# Go and Node are those of this machine, as if unpacked below /usr/local: those of Debian 12 are too old. BARE_ENV has
# settings of the user (NAME=VALUE, words without spaces), such as mirrors of modules and npm packages.
set -eu
cache=${1:?tools/bare.sh CACHE TARGET...: name the folder of the systems}
[ "${BARE_UNSHARED:-}" = yes ] || BARE_UNSHARED=yes exec unshare --mount --pid --fork --kill-child flock "$cache/bare.lock" sh "$0" "$@"
shift
source=$(cd "$(dirname "$0")/.." && pwd)
tree="/home/ann/My Projects/probity"
node=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")

# Changes go to a folder that is removed at the end. The system itself stays as it is.
work=$cache/bare.work
root=$work/root
table=$work/table
rm -rf --one-file-system "$work"
mkdir -p "$root" "$work/upper" "$work/scratch"
# Nothing below a mount is removed: /dev is that of the machine.
trap 'umount --recursive "$root" && rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
mount -t overlay -o "lowerdir=$cache/bare,upperdir=$work/upper,workdir=$work/scratch" overlay "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mkdir "$root/usr/local/go"
mount --bind -o ro "$(${GO:-go} env GOROOT)" "$root/usr/local/go"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
# The authorities that this machine trusts: a mirror may have one of its own.
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
chroot "$root" useradd --create-home ann
mkdir "$(dirname "$root$tree")"
git clone --quiet --no-hardlinks "$source" "$root$tree"
chroot "$root" chown -R ann:ann /home/ann

failed=0
round() { # with what, targets
	what=$1
	shift
	for target; do
		echo "=== bare: make $target, $what"
		began=$(date +%s)
		result=passed
		# shellcheck disable=SC2016,SC2086 # the inner shell has arguments of its own; BARE_ENV is words
		chroot --userspec=ann:ann "$root" /usr/bin/env -i HOME=/home/ann USER=ann PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin \
			NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt ${BARE_ENV:-} \
			sh -c 'cd "$1" && exec make "$2"' sh "$tree" "$target" </dev/null || { result="FAILED ($?)"; failed=1; }
		printf 'make %-8s %6d s  %s, %s\n' "$target" "$(($(date +%s) - began))" "$result" "$what" >>"$table"
	done
}

round "without a C compiler and Node" "$@"
chroot "$root" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev' >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; exit 1; }
mkdir -p "$root/usr/local/bin" "$root/usr/local/lib/node_modules"
cp "$node/bin/node" "$root/usr/local/bin/"
cp -R "$node/lib/node_modules/npm" "$root/usr/local/lib/node_modules/"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/local/bin/npx"
round "with a C compiler and Node" "$@"
printf '\n=== bare\n'
cat "$table"
exit "$failed"
