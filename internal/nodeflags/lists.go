package nodeflags

import (
	"fmt"
	"os"

	"probity/engine/lists"
	"probity/internal/console"
)

// ListChanges are the flags of every command that looks addresses up in the lists.
type ListChanges struct {
	Lists string `help:"Changes to the lists of disposable, free and alias domains and of role names, TOML." type:"existingfile" placeholder:"FILE"`
}

// LoadLists loads the shipped lists with the operator's changes.
func (l ListChanges) LoadLists() (*lists.Set, error) {
	set, err := lists.Default()
	if err != nil || l.Lists == "" {
		return set, err
	}
	data, err := os.ReadFile(l.Lists)
	if err != nil {
		return nil, fmt.Errorf("%w: --lists: %w", console.ErrUsage, err)
	}
	if set, err = set.Override(data); err != nil {
		return nil, fmt.Errorf("%w: --lists %s: %w", console.ErrUsage, l.Lists, err)
	}
	return set, nil
}

// ReloadLists reads the file again. It refuses lists that lose a fifth of any current list.
func (l ListChanges) ReloadLists(now *lists.Set) (*lists.Set, error) {
	next, err := l.LoadLists()
	if err != nil {
		return nil, err
	}
	if err := now.CheckReload(next); err != nil {
		return nil, fmt.Errorf("--lists %s: %w", l.Lists, err)
	}
	return next, nil
}
