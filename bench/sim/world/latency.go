package world

import (
	"fmt"
	"time"

	"probity/bench/sim/persona"
)

// fixedLatency is the duration in Latency; 0 if Latency is one of the words.
func (c Config) fixedLatency() (time.Duration, error) {
	switch c.Latency {
	case "", "none", "realistic":
		return 0, nil
	}
	d, err := time.ParseDuration(c.Latency)
	if err != nil || d <= 0 || d > maxLatency {
		return 0, fmt.Errorf("latency %q: want none, realistic, or a duration up to %s", c.Latency, maxLatency)
	}
	return d, nil
}

// maxLatency is less than the reply timeout of clients.
const maxLatency = 5 * time.Second

// Realistic latency by host: a round trip and the server's own time.
const (
	minLatency    = 30 * time.Millisecond
	latencySpread = 200 * time.Millisecond
)

// dnsLatency is the name server's time for an answer.
const dnsLatency = 15 * time.Millisecond

// Latency returns how long each batch of replies of a host takes.
func (w *World) Latency(host *Host) time.Duration {
	if fixed, err := w.config.fixedLatency(); err == nil && fixed > 0 {
		return fixed
	}
	if w.config.Latency != "realistic" {
		return 0
	}
	h := mixBits(w.config.Seed ^ hashString(host.Name))
	return persona.ScaleWait(minLatency+time.Duration(h%uint64(latencySpread)), w.config.Speedup)
}

// DNSLatency returns how long an answer of the name server takes.
func (w *World) DNSLatency() time.Duration {
	if w.config.Latency != "realistic" {
		return 0
	}
	return persona.ScaleWait(dnsLatency, w.config.Speedup)
}
