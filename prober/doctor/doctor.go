package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
)

// Doctor audits one node. It is made by New and safe for concurrent use.
type Doctor struct {
	cfg       Config
	startedAt time.Time // with its monotonic reading: the wall clock is compared with it
	latest    atomic.Pointer[Report]
}

// New makes a Doctor. It starts nothing.
func New(cfg Config) (*Doctor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Doctor{cfg: cfg, startedAt: time.Now()}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(d); err != nil {
			return nil, fmt.Errorf("doctor: metrics: %w", err)
		}
	}
	return d, nil
}

// Latest is the last report that Run or Audit made; nil before the first. It must not be changed.
func (d *Doctor) Latest() *Report { return d.latest.Load() }

// Run audits at once and then every Interval, until ctx ends.
func (d *Doctor) Run(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.Interval)
	defer tick.Stop()
	for {
		before := d.Latest()
		report := d.Audit(ctx)
		if ctx.Err() != nil {
			return nil
		}
		d.logChanges(ctx, before, report)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// logChanges logs the checks whose severity has changed since the last audit. The text of a finding may quote
// addresses, so it is for debug level.
func (d *Doctor) logChanges(ctx context.Context, before, now *Report) {
	was := map[[2]string]Severity{}
	if before != nil {
		for _, f := range before.Findings {
			was[[2]string{f.Check, f.Subject}] = f.Severity
		}
	}
	for _, f := range now.Findings {
		old, seen := was[[2]string{f.Check, f.Subject}]
		if seen && old == f.Severity || !seen && f.Severity == OK {
			continue
		}
		if f.Severity == OK {
			d.cfg.Log.InfoContext(ctx, "self-audit: passes again", "check", f.Check, "subject", f.logSubject())
			continue
		}
		d.cfg.Log.WarnContext(ctx, "self-audit: see probity doctor", "check", f.Check, "subject", f.logSubject(),
			"level", f.Severity.String(), "do", f.Advice)
		d.cfg.Log.DebugContext(ctx, "self-audit", "check", f.Check, "subject", f.Subject, "what", f.Message)
	}
}

// Audit runs all checks once and publishes the report, unless ctx ended: a partial audit does not count.
func (d *Doctor) Audit(ctx context.Context) *Report {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	a := &audit{questions: newQuestions(&d.cfg)}
	if addr, err := engine.Parse(d.cfg.MailFrom); err == nil {
		a.domain, a.addr = addr.Domain(), addr
	}
	report := &Report{At: start, Findings: a.runChecks(bounded, d)}
	report.Took = time.Since(start)
	if ctx.Err() == nil {
		d.latest.Store(report)
	}
	return report
}

// audit is one audit at work.
type audit struct {
	*questions
	domain string         // of MAIL FROM, empty where there is none
	addr   engine.Address // MAIL FROM
}

// runChecks runs the parts at the same time and puts their findings in the order of Checks.
func (a *audit) runChecks(ctx context.Context, d *Doctor) []Finding {
	parts := []func(context.Context) []Finding{a.checkSender, a.checkPort25, a.checkTerms, a.checkResolvers}
	parts = append(parts, func(context.Context) []Finding { return d.checkMachine(time.Now()) })
	if len(a.Identities) == 0 {
		parts = append(parts, noIdentity)
	}
	for _, id := range a.Identities {
		parts = append(parts, func(ctx context.Context) []Finding { return a.checkIdentity(ctx, id) })
		for _, zone := range a.DNSBLs {
			parts = append(parts, func(ctx context.Context) []Finding {
				return blocklist{a.questions, zone}.check(ctx,
					id)
			})
		}
	}
	return sortByCheck(runParts(ctx, parts))
}

// runParts runs parts, maxAtOnce at a time, and waits for all of them.
func runParts(ctx context.Context, parts []func(context.Context) []Finding) [][]Finding {
	results := make([][]Finding, len(parts))
	slots := make(chan struct{}, maxAtOnce)
	var wg sync.WaitGroup
	for i, part := range parts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = part(ctx)
		})
	}
	wg.Wait()
	return results
}

// sortByCheck puts findings in the order of Checks, and within a check as they came.
func sortByCheck(results [][]Finding) []Finding {
	var out []Finding
	for _, check := range Checks() {
		for _, part := range results {
			for _, f := range part {
				if f.Check == check {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// hostName reports letters, digits, hyphens and underscores in labels of 1 to 63 bytes, at least two labels (RFC 1123
// section 2.1).
func hostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	labels := strings.Split(s, ".")
	if len(s) > 253 || len(labels) < 2 {
		return false
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' ||
			strings.Trim(strings.ToLower(l), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}
