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
	"os/signal"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"probity/api/httpd"
)

// Process is what each process of this program has that runs until it is told to end.
type Process struct {
	Version  string
	Log      *slog.Logger
	Disk     vfs.FS
	Registry Registry // of its metrics
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
	<-served
	return err
}

// listen opens the listener that a flag names.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--%s: %w: end the process that listens there, or choose another port", flag, err)
	case err != nil:
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
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

// onHangup returns a function that calls reload at each SIGHUP until ctx ends. The signal is caught from now on, since it may come
// as soon as our listeners are open. If a reload fails, the old settings stay.
func onHangup(ctx context.Context, log *slog.Logger, reload func() error) func() {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if err := reload(); err != nil {
				log.Error("reload: everything stays as it was", "error", err)
				continue
			}
			log.Info("reloaded")
		}
	}
}
