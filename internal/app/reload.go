package app

import (
	"fmt"
	"log/slog"

	"probity/engine"
	"probity/engine/lists"
)

// reload reads the provider table, the lists, the public certificate and the gossip keys again, and uses them if all
// are valid.
func (s *Service) reload() error {
	table, err := s.flags.Table()
	if err != nil {
		return err
	}
	known, err := s.flags.ReloadLists(s.node.lists.Load())
	if err != nil {
		return err
	}
	pair, err := s.tlsListener.Reread()
	if err != nil {
		return err
	}
	if s.members != nil {
		if err := s.members.reloadKeys(s.node.fleet.cluster); err != nil {
			return err
		}
	}
	n := s.node
	logTable(s.Log, n.activeTable.Load(), table)
	n.activeTable.Store(table)
	n.Resolver.SetTable(table)
	n.Coordinator.SetTable(table)
	if n.fleet != nil {
		n.fleet.TableChanged()
	}
	if n.Prober != nil {
		n.Prober.SetTable(table)
	}
	logLists(s.Log, n.lists.Load(), known)
	warnOfLists(s.Log, known)
	n.lists.Store(known)
	n.Coordinator.SetLists(known)
	s.tlsListener.Use(pair)
	return nil
}

// logTable logs the old and the new provider table, so that the operator sees that a reload read the file.
func logTable(log *slog.Logger, was, now *engine.Table) {
	if was.Hash() == now.Hash() {
		log.Info("the provider table is as it was", "table", tableName(now))
		return
	}
	log.Info("a provider table is in force", "was", tableName(was), "now", tableName(now))
}

// tableName is a table's hash, as "providers show" prints it, with the date of its newest fact: a table has no other
// version.
func tableName(t *engine.Table) string {
	hash, newest := t.Hash(), ""
	note := func(date string, rules []engine.Rule) {
		newest = max(newest, date)
		for i := range rules {
			newest = max(newest, rules[i].Date)
		}
	}
	note("", t.Generic)
	for _, p := range t.Providers {
		note(p.Date, p.Rules)
	}
	return fmt.Sprintf("%x of %s", hash[:], newest)
}

// logLists logs the current lists, so that the log shows that the file was read.
func logLists(log *slog.Logger, was, now *lists.Set) {
	if was.Fingerprint() == now.Fingerprint() {
		log.Info("the lists are as they were")
		return
	}
	n := now.Counts()
	log.Info("other lists are in force", "disposable", n.Disposable, "free", n.Free, "alias", n.Alias, "role", n.Role)
}

// warnOfLists logs what in the --lists file has no effect.
func warnOfLists(log *slog.Logger, known *lists.Set) {
	for _, warning := range known.Warnings() {
		log.Warn("--lists: " + warning)
	}
}
