package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// standInServe is a service that copies the truth of every list. Each poll of a job advances its state.
type standInServe struct {
	Data      string
	Listen    string
	Admin     string   `name:"admin-listen"`
	DNS       string   `name:"dns"`
	Port      int      `name:"smtp-port"`
	Private   bool     `name:"allow-private-targets"`
	Providers string   `type:"existingfile"`
	MailFrom  string   `name:"mail-from"`
	Egress    []string `sep:"none"`

	nodes http.HandlerFunc `kong:"-"` // of the admin listener

	mu    sync.Mutex // guards looks
	polls map[string]int
}

func (s *standInServe) run(ctx context.Context) error {
	if err := os.MkdirAll(s.Data, 0o755); err != nil {
		return err
	}
	s.polls = map[string]int{}
	mux := http.NewServeMux()
	if s.nodes != nil {
		admin := &http.Server{Addr: s.Admin, Handler: s.nodes}
		context.AfterFunc(ctx, func() { _ = admin.Close() })
		go func() { _ = admin.ListenAndServe() }()
	}
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/verify/single", func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, `{"status":"VALID"}`)
	})
	mux.HandleFunc("POST /v1/verify/batch", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[]}`)
	})
	mux.HandleFunc("POST /v1/verify/bulk", s.upload)
	mux.HandleFunc("GET /v1/verify/bulk/{id}", s.pollJob)
	mux.HandleFunc("POST /v1/verify/bulk/{id}/cancel", s.pollJob)
	mux.HandleFunc("GET /v1/verify/bulk/{id}/results", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, s.path(r.PathValue("id"))+".zst")
	})
	server := &http.Server{Addr: s.Listen, Handler: mux}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *standInServe) path(id string) string { return filepath.Join(s.Data, id) }

func (s *standInServe) upload(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer prb_live_") {
		http.Error(w, `{"detail":"no key"}`, http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	id := strconv.Itoa(len(s.polls))
	s.polls[id] = 0
	s.mu.Unlock()
	rows, err := s.storeList(r, id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(jobRecord{ID: id, Status: "queued", Rows: rows})
}

// storeList keeps the list and its result, and counts line feeds outside of quotes.
func (s *standInServe) storeList(r *http.Request, id string) (rows int, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return 0, err
	}
	part, err := parts.NextPart()
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(part)
	if err != nil {
		return 0, err
	}
	quoted := false
	for _, c := range data {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\n' && !quoted:
			rows++
		}
	}
	if err := os.WriteFile(s.path(id), data, 0o644); err != nil {
		return 0, err
	}
	return rows - 1, copyTruth(s.path(id), s.path(id)+".zst")
}

func (s *standInServe) pollJob(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	states := []string{"queued", "running", "running", "finalizing", "finalizing", "completed"}
	state := states[min(s.polls[id], len(states)-1)]
	s.polls[id]++
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(jobRecord{ID: id, Status: state, Processed: 100})
}
