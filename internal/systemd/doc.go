// Package systemd tells systemd that a process is ready, that it lives, and that it ends (sd_notify(3)).
//
// Invariants:
//  1. Without NOTIFY_SOCKET, that is without systemd, nothing is told and nothing fails.
//  2. A watchdog is told only after the process has answered a health check of its own.
package systemd
