package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/engine/smtp"
)

// checkMachine audits what the system grants: time, files, disk.
func (d *Doctor) checkMachine(now time.Time) []Finding {
	elapsed := now.Sub(d.startedAt)                          // by the monotonic clock
	jump := now.Round(0).Sub(d.startedAt.Round(0)) - elapsed // Round strips the monotonic reading
	out := []Finding{d.cfg.checkClock(now, elapsed, jump), d.cfg.checkFiles()}
	if d.cfg.Callbacks != nil {
		out = append(out, d.cfg.checkCallbacks())
	}
	if d.cfg.FS != nil && d.cfg.Folder != "" {
		out = append(out, d.cfg.checkStore())
	}
	return out
}

// checkCallbacks judges whether receivers of callbacks can check the address that they come from.
func (c *Config) checkCallbacks() Finding {
	public := c.Callbacks.Public
	s := subject{"callbacks", "origin"}
	switch {
	case !public.IsValid():
		return s.warn("where this machine sends callbacks, name the address with --callback-source LOCAL[/PUBLIC]",
			"no address is configured: GET /v1/callback-origins is empty, and receivers cannot check where callbacks come from")
	case !c.AllowPrivate && smtp.ClassOf(public) != smtp.Public:
		return s.warn("name what receivers see as --callback-source LOCAL/PUBLIC",
			"receivers are told %s, which is not a public address", public)
	}
	return s.ok("receivers are told %s", public)
}

// maxJump is a step of the wall clock that slewing does not explain.
const maxJump = 2 * time.Second

// checkClock judges the wall clock without asking another machine: by a moment that is surely past, by the monotonic
// clock, and by what the system says about its time service.
func (c *Config) checkClock(now time.Time, elapsed, jump time.Duration) Finding {
	s := subject{"clock", now.UTC().Format(time.RFC3339)}
	const ntp = "run a time service (chrony, ntpd, systemd-timesyncd)"
	if now.Before(c.NotBefore) {
		return s.fail("set the clock, and "+ntp, "wrong: this program is younger (%s)",
			c.NotBefore.UTC().Format(time.DateOnly))
	}
	if jump.Abs() > maxJump {
		return s.warn(ntp+" that slews instead of stepping; cached ages and hourly budgets are off by as much",
			"jumped by %s within %s", jump.Round(time.Millisecond), elapsed.Round(time.Second))
	}
	synced, known := false, false
	if c.Synced != nil {
		synced, known = c.Synced()
	}
	switch {
	case !known:
		return s.unknown(ntp, "cannot tell whether it is right; no jump in %s", elapsed.Round(time.Second))
	case !synced:
		return s.warn(ntp, "nothing keeps it right, says the system")
	}
	return s.ok("kept right by the system; no jump in %s", elapsed.Round(time.Second))
}

// otherFiles are the files and connections other than SMTP sessions: the store's tables, API clients, DNS.
const otherFiles = 1024

// checkFiles judges RLIMIT_NOFILE: each session is a file.
func (c *Config) checkFiles() Finding {
	s := subject{"files", "RLIMIT_NOFILE"}
	if c.OpenFiles == nil {
		return s.unknown("look at ulimit -n", "cannot tell the limit of open files")
	}
	soft, hard, err := c.OpenFiles()
	need := uint64(c.Sessions) + otherFiles
	raise := fmt.Sprintf("raise it to %d: ulimit -n %d, or LimitNOFILE=%d in the systemd unit", need, need, need)
	switch {
	case err != nil:
		return s.unknown("look at ulimit -n", "cannot tell the limit of open files: %s", printable(err.Error()))
	case soft < otherFiles/2:
		return s.fail(raise, "%d open files (hard limit %d): the store alone may need more", soft, hard)
	case soft < need:
		return s.warn(raise, "%d open files (hard limit %d) for %d SMTP sessions", soft, hard, c.Sessions)
	}
	return s.ok("%d open files", soft)
}

// checkStore judges the store's folder by writing to it, and its free space.
func (c *Config) checkStore() Finding {
	s := subject{"store", c.Folder}
	dir, exists, err := c.nearestFolder()
	if err != nil {
		return s.fail("check the path and its permissions", "cannot be looked at: %s", printable(err.Error()))
	}
	if err := c.tryWrite(dir); err != nil {
		return s.fail("let the user of this process write there, or choose another folder with --data",
			"not writable: %s", printable(err.Error()))
	}
	usage, err := c.FS.GetDiskUsage(dir)
	_, damaged := c.FS.Stat(c.FS.PathJoin(c.Folder, damagedCache))
	switch {
	case err != nil:
		return s.unknown("look at the free space yourself", "writable; free space cannot be told: %s",
			printable(err.Error()))
	case usage.AvailBytes < c.FreeFloor:
		return s.fail("free space, or move the store: uploads are refused", "%s free, below the floor of %s",
			formatSize(usage.AvailBytes), formatSize(c.FreeFloor))
	case usage.AvailBytes < 8*c.FreeFloor:
		return s.warn("free space: a job of five million rows may need several GiB", "%s free",
			formatSize(usage.AvailBytes))
	case exists && damaged == nil:
		return s.warn("look at the disk (smartctl, dmesg) and at the memory; "+damagedCache+
			" is removed a day after it was set aside",
			"writable, but a damaged result cache was set aside: %s; its budgets counted as used up for an hour",
			damagedCache)
	case !exists:
		return s.ok("will be made at the first start; %s free", formatSize(usage.AvailBytes))
	}
	return s.ok("writable, %s free", formatSize(usage.AvailBytes))
}

// damagedCache is where store/cache sets a damaged cache aside.
const damagedCache = "cache.damaged"

// maxDepth bounds the way up to a folder that exists.
const maxDepth = 64

// nearestFolder is the folder, or the nearest one above it that exists: the folder is made at the first start.
func (c *Config) nearestFolder() (dir string, exists bool, err error) {
	dir = c.Folder
	for range maxDepth {
		_, err = c.FS.Stat(dir)
		if err == nil {
			return dir, dir == c.Folder, nil
		}
		above := c.FS.PathDir(dir)
		if !errors.Is(err, fs.ErrNotExist) || above == dir {
			return "", false, err
		}
		dir = above
	}
	return "", false, err
}

// tryWrite makes a file, syncs it and removes it.
func (c *Config) tryWrite(dir string) error {
	name := c.FS.PathJoin(dir, fmt.Sprintf(".doctor-%016x", rand.Uint64()))
	file, err := c.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { _ = c.FS.Remove(name) }()
	_, err = file.Write([]byte("ok"))
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func formatSize(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
