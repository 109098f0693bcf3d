#!/bin/sh
# Makes the user and the folders. After an upgrade, services that run are restarted; jobs go on where they were.
set -e
systemd-sysusers probity.conf
systemd-tmpfiles --create probity.conf
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart probity.service probity-coordinator.service probity-prober.service
fi
