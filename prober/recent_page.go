package prober

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"probity/engine"
	"probity/prober/wire"
)

// Recent serves recent probes as lines of JSON, the newest first: some of each second, and for longer those that ended
// UNKNOWN. ?email=ADDRESS finds those of one address; status, provider and limit filter as in wire.Query. Other
// parameters are an error. No address is shown or kept.
func (p *Prober) Recent() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := readQuery(r.URL.RawQuery, p.env.Table.Load())
		var list []wire.Trace
		if err == nil {
			list, err = p.traces(q)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/x-ndjson")
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for i := range list {
			if enc.Encode(&list[i]) != nil {
				return // the client has gone
			}
		}
	})
}

// readQuery reads the parameters of the page; an error says which is wrong.
func readQuery(raw string, table *engine.Table) (q wire.Query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("the query cannot be read: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		switch {
		case len(v) > 1:
			return q, fmt.Errorf("%s is given twice", name)
		case v[0] == "":
			return q, fmt.Errorf("%s is empty; leave it out to see all", name)
		}
		switch name {
		case "email":
			q.Email = v[0]
		case "status":
			q.Status = strings.ToUpper(v[0])
		case "provider":
			q.Provider = v[0]
			if table.Provider(q.Provider) == nil {
				return q, fmt.Errorf("provider %.40q is not an id of the table; probity providers show lists them",
					q.Provider)
			}
		case "limit":
			q.Limit, err = strconv.Atoi(v[0])
			if err != nil || q.Limit < 1 {
				return q, fmt.Errorf("limit %.40q is not a number from 1", v[0])
			}
		default:
			return q, fmt.Errorf("there is no parameter %.40q: email, status, provider and limit choose among the probes", name)
		}
	}
	return q, nil
}
