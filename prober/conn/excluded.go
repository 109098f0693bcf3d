package conn

import "probity/engine"

// TableExcludes reports whether a table excludes these hosts, or the provider that an older table gave them.
func TableExcludes(t *engine.Table, was *engine.Provider, hosts []string) bool {
	if was != nil {
		if now := t.Provider(was.ID); now != nil && !now.Probe {
			return true
		}
	}
	return !t.Match(hosts).Probe
}
