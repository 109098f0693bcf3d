package systemd

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Tell tells systemd that the process is ready; if the unit has WatchdogSec, twice in that time that it lives, while
// alive succeeds; and, when ctx ends, that it stops. alive gets half of that time.
func Tell(ctx context.Context, log *slog.Logger, alive func(context.Context) error) {
	tell := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("systemd is not told", "state", state, "error", err)
		}
	}
	tell(daemon.SdNotifyReady)
	defer tell(daemon.SdNotifyStopping)
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of systemd is not told that the process lives", "error", err)
	}
	if limit == 0 {
		<-ctx.Done()
		return
	}
	every := limit / 2
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		checked, cancel := context.WithTimeout(ctx, every)
		err := alive(checked)
		cancel()
		switch {
		case err == nil:
			tell(daemon.SdNotifyWatchdog)
		case ctx.Err() == nil:
			log.Error("health check failed: the watchdog of systemd ends the process if that goes on", "error", err)
		}
	}
}
