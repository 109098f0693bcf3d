package trace

import (
	"probity/engine"
	"probity/prober/wire"
	"probity/store/cache"
)

// Find lists the probes that match a query, the newest first, with the sources of their rules in the provider table. A limit of 0 takes
// all; key stands for the query's address, nil for none.
func (r *Recent) Find(q wire.Query, key *cache.Key, table *engine.Table) []wire.Trace {
	sources, found := ruleSources(table), []wire.Trace{}
	for _, t := range r.all() {
		if q.Limit > 0 && len(found) == q.Limit {
			break
		}
		if (key == nil || t.key == *key) && (q.Status == "" || q.Status == t.Status) && (q.Provider == "" || q.Provider == t.Provider) {
			one := t.Trace // a trace does not change, so a copy gets the sources
			one.Source = sources[one.Rule]
			if one.Decoy != nil {
				decoy := *one.Decoy
				decoy.Source = sources[decoy.Rule]
				one.Decoy = &decoy
			}
			found = append(found, one)
		}
	}
	return found
}

// ruleSources maps the ids of a table's rules to where the rules come from.
func ruleSources(table *engine.Table) map[string]string {
	from := map[string]string{}
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
