package trace

import (
	"probity/engine"
	"probity/prober/wire"
	"probity/store/cache"
)

// Find lists the probes that match a query, the newest first, with the sources of their rules in the provider table. A
// limit of 0 takes all; key stands for the query's address, nil for none.
func (r *Recent) Find(q wire.Query, key *cache.Key, table *engine.Table) []wire.Trace {
	found := []wire.Trace{}
	for _, t := range r.all() {
		if q.Limit > 0 && len(found) == q.Limit {
			break
		}
		if (key == nil || t.key == *key) && (q.Status == "" || q.Status == t.Status) &&
			(q.Provider == "" || q.Provider == t.Provider) {
			one := t.Trace // a trace does not change, so a copy gets the sources
			one.Source = ruleSource(table, one.Rule)
			if one.Decoy != nil {
				decoy := *one.Decoy
				decoy.Source = ruleSource(table, decoy.Rule)
				one.Decoy = &decoy
			}
			found = append(found, one)
		}
	}
	return found
}

// ruleSource returns where a rule comes from.
func ruleSource(table *engine.Table, id string) string {
	if r := table.Rule(id); r != nil {
		return r.Source
	}
	return ""
}
