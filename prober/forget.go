package prober

import (
	"fmt"
	"time"

	"probity/engine"
)

// Forget deletes what this node keeps of an address: its cached verdict and a planned retry of a single call. It
// reports whether there was a verdict. Facts about the domain stay, and so do recent probes, which contain no address.
func (p *Prober) Forget(a engine.Address) (was bool, err error) {
	key := p.cfg.Cache.Key(a)
	p.retries.forget(key)
	_, was = p.cfg.Cache.Get(key, time.Now())
	if err := p.cfg.Cache.Delete(key); err != nil {
		return false, fmt.Errorf("cache: %w", err)
	}
	return was, nil
}
