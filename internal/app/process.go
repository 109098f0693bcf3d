package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"probity/api/httpd"
	"probity/internal/buildinfo"
	"probity/internal/systemd"
	"probity/store/diskroom"
)

// Process is what each process of this program has that runs until it is told to end.
type Process struct {
	Build    buildinfo.Build
	Log      *slog.Logger
	Disk     vfs.FS
	Registry Registry         // of its metrics
	Hangups  <-chan os.Signal // SIGHUP, caught since the start of the process; nil for none
}

// Registry registers and gathers the metrics of the components.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// serveAdminHTTP serves an operator's listener until ctx ends. On loopback it refuses requests for other host names.
func serveAdminHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	if a, ok := listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		handler = httpd.RefuseForeignHosts(handler)
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := web.Close()
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// listen opens the listener that a flag names.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w%s", flag, err, listenAdvice(err))
	}
	return l, nil
}

// listenAdvice says what to do about an address at which a process cannot listen.
func listenAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return ": end the process that listens there, or choose another port"
	case errors.Is(err, syscall.EACCES):
		return ": choose a port from 1024 on, or give the process the capability CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": it is not an address of this machine; name one that is, or only :PORT for all"
	}
	return ""
}

// listenForAdmins opens the admin listener, and warns if more than this machine may reach it.
func (p Process) listenForAdmins(address string) (net.Listener, error) {
	l, err := listen("admin-listen", address)
	if err == nil && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		p.Log.Warn("the admin listener has no authentication and is not on loopback: give --admin-listen an address such as 127.0.0.1:9090, or let only admins reach it", "admin-listen", l.Addr().String())
	}
	return l, err
}

// runToEnd runs a process that is open, and closes it. systemd is told that it is ready and lives, as long as its admin
// listener answers. It logs why it was told to stop, and that it has stopped; an error that ends it is the caller's to
// show.
func (p Process) runToEnd(ctx context.Context, admin net.Listener, run func(context.Context) error,
	closeAll func() error) error {
	running, end := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() {
		systemd.Tell(running, p.Log, func(ctx context.Context) error { return checkHealth(ctx, admin) })
	})
	logged := make(chan struct{})
	notToldYet := context.AfterFunc(ctx, func() {
		defer close(logged)
		p.Log.Info("stopping", "cause", context.Cause(ctx))
	})
	err := errors.Join(run(ctx), closeAll())
	end()
	told.Wait()
	if !notToldYet() {
		<-logged
		p.Log.Info("stopped")
	}
	return err
}

// checkHealth asks the process itself for its health, as others do.
func checkHealth(ctx context.Context, admin net.Listener) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin.Addr().String()+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", q.URL, answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// roomPatience is how long a start and a stop wait for room on the disk.
const roomPatience = 5 * time.Second

// runInRoom opens and runs a process. On a disk without room, opening ends with an error, and so does a stop; what runs
// waits for room.
func (p Process) runInRoom(ctx context.Context, room *diskroom.Room, open, run func() error) error {
	started := make(chan struct{})
	close(started)
	if err := room.UnlessStuck(started, roomPatience, open); err != nil {
		return err
	}
	return room.UnlessStuck(ctx.Done(), roomPatience, run)
}

// closeListeners closes the listeners that are open; those that served are closed already.
func closeListeners(listeners ...net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// writeJSON answers with v. It ignores a client that has closed the connection.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// reloadOnHangup calls reload at each SIGHUP until ctx ends. If a reload fails, the old settings stay.
func (p Process) reloadOnHangup(ctx context.Context, reload func() error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Hangups:
		}
		if err := reload(); err != nil {
			p.Log.Error("reload: everything stays as it was", "error", err)
			continue
		}
		p.Log.Info("reloaded")
	}
}
