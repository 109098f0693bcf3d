package prober

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// Recent shows probes that were made lately: some of each second, the newest first, and those that ended UNKNOWN for longer.
// It answers with a table to who accepts HTML, else with lines of JSON. ?email=ADDRESS finds those of one address, if they are
// remembered. No address is shown, and none is kept.
func (p *Prober) Recent() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := p.recent.all()
		if email := r.FormValue("email"); email != "" {
			a, err := engine.ParseTrimmed(email)
			if err != nil {
				http.Error(w, "email is no address", http.StatusBadRequest)
				return
			}
			list = ofKey(list, p.cfg.Cache.Key(a))
		}
		w.Header().Set("Cache-Control", "no-store")
		out := bufio.NewWriter(w)
		defer out.Flush()
		sources := p.sources()
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			writeTable(out, list, sources)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		writeLines(out, list, sources)
	})
}

func ofKey(list []*trace, k cache.Key) (own []*trace) {
	for _, t := range list {
		if t.key == k {
			own = append(own, t)
		}
	}
	return own
}

// sources is where the rules of the table come from, by their ids.
func (p *Prober) sources() map[string]string {
	table, from := p.table.Load(), map[string]string{}
	put := func(rules []engine.Rule) {
		for i := range rules {
			from[rules[i].ID] = rules[i].Source
		}
	}
	put(table.Generic)
	put(table.Unknown.Rules)
	for _, prov := range table.Providers {
		put(prov.Rules)
	}
	return from
}

func writeLines(out *bufio.Writer, list []*trace, sources map[string]string) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, t := range list {
		line := t.Trace
		line.Source = sources[t.Rule]
		if enc.Encode(&line) != nil {
			return // who asked has gone
		}
	}
}

func writeTable(out *bufio.Writer, list []*trace, sources map[string]string) {
	_, _ = out.WriteString("<!DOCTYPE html><title>Recent probes</title><table border=1><tr>")
	for _, name := range strings.Fields("time provider mx stage event code enhanced meaning rule source status reason message attempts egress") {
		_, _ = out.WriteString("<th>" + name)
	}
	for _, t := range list {
		_, _ = out.WriteString("\n<tr>")
		for _, cell := range [...]string{t.At.UTC().Format(time.RFC3339Nano), t.Provider, t.Host, t.Stage, t.Event, numberText(t.Code), t.Enhanced,
			t.Meaning, t.Rule, sources[t.Rule], t.Status, t.Reason, t.Message, strconv.Itoa(t.Attempts), t.Egress} {
			_, _ = out.WriteString("<td>" + html.EscapeString(cell))
		}
	}
	_, _ = out.WriteString("\n</table>\n")
}

func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func enhancedText(e engine.Enhanced) string {
	if e.Class == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", e.Class, e.Subject, e.Detail)
}
