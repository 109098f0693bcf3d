#!/bin/sh
# Stops and disables the services when the package is removed (deb: "remove", rpm: 0 packages left), not when it is upgraded.
set -e
case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now probity.service probity-coordinator.service probity-prober.service probity-backup.timer
	fi
	;;
esac
