//go:build way

package app

import (
	"net/http"
	"runtime/coverage"
)

// coverageRoutes lets a test read which blocks of this process have run: a build with -cover -covermode=atomic.
func coverageRoutes(mux *http.ServeMux) {
	on := func(path string, do ...func(dir string) error) {
		mux.HandleFunc("POST /debug/coverage/"+path, func(w http.ResponseWriter, r *http.Request) {
			for _, step := range do {
				if err := step(r.URL.Query().Get("dir")); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
			}
		})
	}
	on("clear", func(string) error { return coverage.ClearCounters() })
	on("write", coverage.WriteMetaDir, coverage.WriteCountersDir)
}
