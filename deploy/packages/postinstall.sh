#!/bin/sh
# Makes the user and the folders. After an upgrade, services that run are restarted; jobs go on where they were.
set -e
systemd-sysusers probity.conf
# It needs /proc, which a chroot in which an image is made may lack; the image's first boot makes the folders then.
if [ -d /proc/self ]; then
	systemd-tmpfiles --create probity.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart probity.service probity-coordinator.service probity-prober.service
fi
