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
func eraseEverywhere(c *coordinator.Coordinator, s *store.Store, k *cache.Cache) func(context.Context, string) (api.Erased, error) {
	return func(ctx context.Context, folded string) (removed api.Erased, err error) {
		a, err := engine.Parse(folded)
		if err != nil {
			return removed, fmt.Errorf("address to erase: %w", err)
		}
		if removed.Jobs, err = c.Erase(ctx, a.Folded()); err != nil {
			return removed, err
		}
		if removed.Cached, err = uncache(k, a); err != nil {
			return removed, err
		}
		answers, err := s.EraseAnswers(func(body []byte) bool { return names(body, a.Folded()) })
		removed.Cached += answers
		return removed, err
	}
}

// uncache deletes the verdict of an address, and counts it if it was there. A coordinator alone has no cache: its probers
// keep theirs under keyed hashes, until their time is over.
func uncache(k *cache.Cache, a engine.Address) (n int, err error) {
	if k == nil {
		return 0, nil
	}
	key := k.Keyer().Key(a)
	if _, cached := k.Get(key, time.Now()); cached {
		n = 1
	}
	if err := k.Delete(key); err != nil {
		return 0, fmt.Errorf("cache: %w", err)
	}
	return n, nil
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
