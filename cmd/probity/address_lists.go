package main

import (
	"fmt"
	"log/slog"
	"os"

	"probity/engine/lists"
	"probity/internal/console"
)

// listsFlags are the flags of every command that looks addresses up in the lists.
type listsFlags struct {
	Lists string `help:"Changes to the lists of disposable, free and alias domains and of role names, TOML." type:"existingfile" placeholder:"FILE"`
}

// loadLists loads the shipped lists with the operator's changes.
func (f listsFlags) loadLists() (*lists.Set, error) {
	set, err := lists.Default()
	if err != nil || f.Lists == "" {
		return set, err
	}
	data, err := os.ReadFile(f.Lists)
	if err != nil {
		return nil, fmt.Errorf("%w: --lists: %w", console.ErrUsage, err)
	}
	if set, err = set.Override(data); err != nil {
		return nil, fmt.Errorf("%w: --lists %s: %w", console.ErrUsage, f.Lists, err)
	}
	return set, nil
}

// reloadLists reads the file again. It refuses lists that lose a fifth of any current list.
func (f listsFlags) reloadLists(now *lists.Set) (*lists.Set, error) {
	next, err := f.loadLists()
	if err != nil {
		return nil, err
	}
	if err := now.CheckReload(next); err != nil {
		return nil, fmt.Errorf("--lists %s: %w", f.Lists, err)
	}
	return next, nil
}

// logLists logs the current lists, so that the log shows that the file was read.
func logLists(log *slog.Logger, was, now *lists.Set) {
	if was.Fingerprint() == now.Fingerprint() {
		log.Info("the lists are as they were")
		return
	}
	disposable, free, alias, role := now.Counts()
	log.Info("other lists are in force", "disposable", disposable, "free", free, "alias", alias, "role", role)
}
