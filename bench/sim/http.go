package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// headerTimeout bounds a slow client of the report, shutdownTimeout one that is
// still reading when the server ends.
const (
	headerTimeout   = 5 * time.Second
	shutdownTimeout = time.Second
)

// Handler serves GET /referee, the report as JSON.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /referee", s.serveReport)
	return mux
}

func (s *Server) serveReport(rw http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(s.Referee.Report())
	if err != nil {
		panic("BUG: the report does not marshal: " + err.Error())
	}
	rw.Header().Set("Content-Type", "application/json")
	// The client may have gone away.
	_, _ = rw.Write(append(body, '\n'))
}

// startHTTP serves the report if Config.HTTP is set.
func (s *Server) startHTTP(ctx context.Context) error {
	at := s.World.Config().HTTP
	if !at.IsValid() {
		return nil
	}
	l, err := s.network.Listen(at)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	s.HTTP = addrPort(l.Addr())
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headerTimeout}
	s.done.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("http: %w", err))
		}
	})
	s.done.Go(func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	})
	return nil
}
