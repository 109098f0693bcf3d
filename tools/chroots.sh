#!/bin/sh
# Makes Debian systems, each a folder of CACHE, in which tests run programs that the machine itself must not get. Systems
# are of their own because packages exclude each other. A folder that is whole and has the packages named here is kept, so
# a second run takes no time; delete a folder, or CACHE, to have it made again.
#
#   tools/chroots.sh CACHE 'NAME PACKAGE...' ...     as root; MIRROR=URL for another Debian mirror than debootstrap's own
set -eu
suite=bookworm
cache=${1:?tools/chroots.sh CACHE: name the folder of the systems}
case $cache in
*[[:space:],:]*) echo "chroots: $cache: debootstrap and overlay mounts take no folder with a space, comma or colon in its path; name another (make ... MTA_CACHE=/var/cache/probity-mta)" >&2; exit 1 ;;
/*) ;;
*) echo "chroots: $cache: name the folder by its whole path, from /" >&2; exit 1 ;;
esac

# In namespaces of its own: whatever a package's script mounts or starts is gone when this script ends, also when it fails.
if [ "${CHROOTS_UNSHARED:-}" != yes ]; then
	[ "$(id -u)" = 0 ] || { echo "chroots: run this as root: debootstrap and chroot need it" >&2; exit 1; }
	command -v debootstrap >/dev/null || { echo "chroots: debootstrap is missing; on Debian: apt-get install debootstrap" >&2; exit 1; }
	mkdir -p "$cache"
	CHROOTS_UNSHARED=yes exec unshare --mount --pid --fork --kill-child flock "$cache/lock" sh "$0" "$@"
fi

say() { echo "chroots: $*"; }
# The output of a step goes to a file, and is shown only if the step fails.
quietly() {
	"$@" >"$cache/chroots.log" 2>&1 </dev/null || { tail -n 30 "$cache/chroots.log" >&2; say "failed: $*" >&2; exit 1; }
}
complete() { [ "$(cat "$cache/$1/.packages" 2>/dev/null)" = "$2" ]; }

base() {
	complete base "$suite" && return
	say "Debian $suite: a base system (about two minutes)"
	rm -rf "$cache/base" "$cache/base.new"
	quietly debootstrap --variant=minbase "$suite" "$cache/base.new" ${MIRROR:+"$MIRROR"}
	# Packages start their services when they are installed unless this script forbids it (invoke-rc.d(8)).
	printf '#!/bin/sh\nexit 101\n' >"$cache/base.new/usr/sbin/policy-rc.d"
	chmod 755 "$cache/base.new/usr/sbin/policy-rc.d"
	rm -rf "$cache/base.new/var/cache/apt/archives/"*.deb
	echo "$suite" >"$cache/base.new/.packages"
	mv "$cache/base.new" "$cache/base"
}

system() { # name, packages
	name=$1; shift
	complete "$name" "$suite $*" && return
	base
	say "$name: $*"
	rm -rf "$cache/$name" "$cache/$name.new"
	cp -a --reflink=auto "$cache/base" "$cache/$name.new"
	mount -t proc proc "$cache/$name.new/proc"
	quietly env DEBIAN_FRONTEND=noninteractive chroot "$cache/$name.new" apt-get install -y --no-install-recommends "$@"
	umount "$cache/$name.new/proc"
	rm -rf "$cache/$name.new/var/cache/apt/archives/"*.deb
	echo "$suite $*" >"$cache/$name.new/.packages"
	mv "$cache/$name.new" "$cache/$name"
}

shift
for words; do
	# shellcheck disable=SC2086 # its words are a name and packages
	system $words
done
