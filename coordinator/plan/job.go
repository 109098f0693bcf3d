package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire/press"
	"probity/store"
)

// maxPlanned bounds the domains of one plan, and so its memory.
const maxPlanned = 1 << 18

// Options are the assumptions of a plan.
type Options struct {
	Sources int           // egress sources; 0: those that take work now
	Refused float64       // share of refused addresses, 0 to 1
	Lookups time.Duration // time limit of DNS lookups; domains not found by then are not counted. 0: no limit
}

// JobPlan is the least time for the unanswered rows of a job, if every budget is unused.
type JobPlan struct {
	Plan
	Refused   float64 // assumed share of refused addresses
	Addresses int64   // distinct addresses without an answer
	Unasked   int64   // of these, addresses that need no SMTP
	Uncounted int64   // of these, addresses not in the plan: domains that could not be looked up, or exceed maxPlanned
}

// Planner makes the plans of jobs: it reads the list again and looks up its domains.
type Planner struct {
	Resolver interface {
		Route(ctx context.Context, domain string) engine.Route
	}
	Lookups  int // concurrent DNS lookups
	Workers  int // goroutines that read the list
	Suppress func(engine.Address) bool
	Sources  func() int // egress sources that take work now; nil: unknown
}

// Plan computes the least time for the rows of a job's upload that are not answered.
func (pl *Planner) Plan(ctx context.Context, j *store.Job, u *jobfiles.Upload, answered jobfiles.RowSet,
	o Options) (JobPlan, error) {
	p := jobPlanner{Planner: pl, job: j, domains: map[string]int{}, plan: JobPlan{Refused: o.Refused}}
	if err := p.countDomains(ctx, u, answered); err != nil {
		return JobPlan{}, err
	}
	if err := p.lookUp(ctx, o.Lookups); err != nil {
		return JobPlan{}, err
	}
	if pl.Sources != nil && o.Sources == 0 {
		o.Sources = pl.Sources()
	}
	p.plan.Plan = p.tally.Plan(o.Sources)
	return p.plan, nil
}

// jobPlanner makes one plan.
type jobPlanner struct {
	*Planner
	job     *store.Job
	domains map[string]int // addresses without an answer, by domain
	tally   Tally
	plan    JobPlan
}

// plannedFrame is a frame of the list that a planner reads.
type plannedFrame struct {
	index   int
	fr      jobfiles.FrameReader
	firstOf []uint32
	domains []string // one for each address without an answer; empty if it is never probed
}

// countDomains counts the addresses of each domain that have no answer yet.
func (p *jobPlanner) countDomains(ctx context.Context, u *jobfiles.Upload, answered jobfiles.RowSet) error {
	j := p.job
	var dialect csvfile.Dialect
	if err := json.Unmarshal(j.Dialect, &dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	fill := pipeline.Indexes(ctx, len(u.Frames), func(f *plannedFrame, i int) { f.index = i })
	work := func(f *plannedFrame) (err error) {
		if err := f.fr.Read(u, &dialect, f.index); err != nil {
			return err
		}
		if f.firstOf, err = u.AppendFirstRows(f.firstOf[:0], f.index); err != nil {
			return err
		}
		f.domains = f.domains[:0]
		for i := range f.fr.Block.Rows {
			press.Yield(i)
			if f.fr.Block.Rows[i].Blank || f.firstOf[i] != 0 || answered.Has(u.Frames[f.index].First+uint32(i)) {
				continue
			}
			domain := ""
			a, err := engine.ParseTrimmed(string(f.fr.Block.Email(i)))
			if err == nil && !p.Suppress(a) && !j.Test && !j.NoSMTP {
				domain = a.Domain()
			}
			f.domains = append(f.domains, domain)
		}
		return nil
	}
	take := func(f *plannedFrame) error {
		p.plan.Addresses += int64(len(f.domains))
		for _, d := range f.domains {
			switch n, known := p.domains[d]; {
			case d == "":
				p.plan.Unasked++
			case known:
				p.domains[d] = n + 1
			case len(p.domains) >= maxPlanned:
				p.plan.Uncounted++
			default:
				p.domains[strings.Clone(d)] = 1 // do not keep the text of the block
			}
		}
		return nil
	}
	return pipeline.Run(new(pipeline.Pool[plannedFrame]), p.Workers, fill, work, take)
}

// lookUp finds the routes of the domains and adds their recipients to the plan. Domains not found within limit are
// uncounted.
func (p *jobPlanner) lookUp(ctx context.Context, limit time.Duration) error {
	lookupCtx := ctx
	if limit > 0 {
		var stop context.CancelFunc
		lookupCtx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	type domain struct {
		name  string
		route engine.Route
	}
	names, found := make(chan string), make(chan domain)
	var resolvers sync.WaitGroup
	for range min(p.Lookups, len(p.domains)) {
		resolvers.Go(func() {
			for name := range names {
				d := domain{name: name}
				d.route.Fact = engine.FactDNSTimeout
				if lookupCtx.Err() == nil {
					d.route = p.Resolver.Route(lookupCtx, name)
				}
				found <- d
			}
		})
	}
	go func() {
		for name := range p.domains {
			names <- name
		}
		close(names)
		resolvers.Wait()
		close(found)
	}()
	for d := range found {
		n := p.domains[d.name]
		switch {
		case d.route.Fact == engine.FactServFail || d.route.Fact == engine.FactDNSTimeout:
			p.plan.Uncounted += int64(n)
		case !p.tally.Add(&d.route, d.name, Expect(n, p.plan.Refused)):
			p.plan.Unasked += int64(n)
		}
	}
	return ctx.Err()
}
