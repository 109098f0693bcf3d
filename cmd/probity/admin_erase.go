package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"probity/api"
	"probity/coordinator"
	"probity/engine"
	"probity/store"
	"probity/store/cache"
)

type eraseCmd struct {
	listFlags
	Address string `arg:"" help:"The address to forget, in any of its spellings."`
}

// Run prints what was removed.
func (c *eraseCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		removed, err := o.Erase(ctx, c.Address)
		if err != nil {
			return err
		}
		return printRows(con, c.JSON, "CACHED\tJOBS", []api.Erased{removed}, func(e api.Erased) []string {
			return []string{strconv.Itoa(e.Cached), strconv.Itoa(e.Jobs)}
		})
	})
}

// eraseEverywhere forgets an address, given in folded form, wherever we keep what is known of one: in the files of jobs,
// which ask no more for it then, in the cache, and in answers kept for their Idempotency-Key.
func eraseEverywhere(c *coordinator.Coordinator, s *store.Store, uncache func(context.Context, engine.Address) (int, error)) func(context.Context, string) (api.Erased, error) {
	return func(ctx context.Context, folded string) (removed api.Erased, err error) {
		a, err := engine.Parse(folded)
		if err != nil {
			return removed, fmt.Errorf("address to erase: %w", err)
		}
		if removed.Jobs, err = c.Erase(ctx, a.Folded()); err != nil {
			return removed, err
		}
		if removed.Cached, err = uncache(ctx, a); err != nil {
			return removed, err
		}
		answers, err := s.EraseAnswers(func(body []byte) bool { return names(body, a.Folded()) })
		removed.Cached += answers
		return removed, err
	}
}

// uncache deletes the verdicts of an address, and counts them: in this process's cache, or in those of a coordinator's nodes, which
// are told later where they are away.
func (n *node) uncache(ctx context.Context, a engine.Address) (int, error) {
	if n.fleet == nil {
		return uncacheFrom(n.cache)(ctx, a)
	}
	cached, away, err := n.fleet.Forget(ctx, a.Folded())
	if len(away) > 0 {
		n.log.Warn("nodes are away: they forget an erased address when they are back", "nodes", away)
	}
	return cached, err
}

// uncacheFrom deletes the verdict of an address from one cache.
func uncacheFrom(k *cache.Cache) func(context.Context, engine.Address) (int, error) {
	return func(_ context.Context, a engine.Address) (n int, err error) {
		key := k.Keyer().Key(a)
		if _, cached := k.Get(key, time.Now()); cached {
			n = 1
		}
		if err := k.Delete(key); err != nil {
			return 0, fmt.Errorf("cache: %w", err)
		}
		return n, nil
	}
}

// names tells whether a kept answer is about the address.
func names(body []byte, folded string) bool {
	var answer struct {
		Email   string `json:"email"`
		Details struct {
			Normalized string `json:"normalized_email"`
			DidYouMean string `json:"did_you_mean"`
		} `json:"details"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	for _, s := range []string{answer.Email, answer.Details.Normalized, answer.Details.DidYouMean} {
		if a, err := engine.ParseTrimmed(s); err == nil && a.Folded() == folded {
			return true
		}
	}
	return false
}
