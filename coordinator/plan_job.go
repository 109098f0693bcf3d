package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/coordinator/plan"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire/press"
	"probity/store"
)

// maxPlanned bounds the domains of one plan, and so its memory.
const maxPlanned = 1 << 18

// PlanOptions are the assumptions of a plan.
type PlanOptions struct {
	Sources int           // egress sources; 0: those that take work now
	Refused float64       // share of refused addresses, 0 to 1
	Lookups time.Duration // time limit of DNS lookups; domains not found by then are not counted. 0: no limit
}

// JobPlan is the least time for the unanswered rows of a job, if every budget is unused.
type JobPlan struct {
	plan.Plan
	Refused   float64 // assumed share of refused addresses
	Addresses int64   // distinct addresses without an answer
	Unasked   int64   // of these, addresses that need no SMTP
	Uncounted int64   // of these, addresses not in the plan: domains that could not be looked up, or exceed maxPlanned
}

// Plan computes the least time for the rest of a job that is queued, running or paused; in other states it returns ErrState.
// It reads the list again and looks up its domains. One plan is made at a time.
func (c *Coordinator) Plan(ctx context.Context, id string, o PlanOptions) (JobPlan, error) {
	if err := pipeline.Acquire(ctx, c.planSlots); err != nil {
		return JobPlan{}, err
	}
	defer func() { <-c.planSlots }()
	j, err := plannable(c.Job(id))
	if err != nil {
		return JobPlan{}, err
	}
	p := planner{c: c, job: j, domains: map[string]int{}, plan: JobPlan{Refused: o.Refused}}
	if err := p.countDomains(ctx); err != nil {
		if _, moved := plannable(c.Job(id)); moved != nil {
			err = moved // the job has finished, and its files may be gone
		}
		return JobPlan{}, err
	}
	if err := p.lookUp(ctx, o.Lookups); err != nil {
		return JobPlan{}, err
	}
	if c.budgets.fleet != nil && o.Sources == 0 {
		o.Sources = c.budgets.sources()
	}
	p.plan.Plan = p.tally.Plan(o.Sources)
	return p.plan, nil
}

// plannable returns a job that may have unanswered rows, or ErrState.
func plannable(j *store.Job, err error) (*store.Job, error) {
	if err == nil && j.State != store.JobQueued && j.State != store.JobRunning && j.State != store.JobPaused {
		return nil, fmt.Errorf("%w: it is %s", ErrState, j.State)
	}
	return j, err
}

type planner struct {
	c       *Coordinator
	job     *store.Job
	domains map[string]int // addresses without an answer, by domain
	tally   plan.Tally
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
func (p *planner) countDomains(ctx context.Context) error {
	c, j := p.c, p.job
	var dialect csvfile.Dialect
	if err := json.Unmarshal(j.Dialect, &dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	u, err := c.files.OpenUpload(j)
	if err != nil {
		return err
	}
	var answered jobfiles.RowSet
	if running := c.runningJobOf(j.ID); running != nil {
		answered = running.answered
	} else if answered, _, err = c.files.AnsweredRows(j); err != nil {
		return errors.Join(err, u.Close())
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
			if err == nil && !c.cfg.Suppress(a) && !j.Test && !j.NoSMTP {
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
	err = pipeline.Run(new(pipeline.Pool[plannedFrame]), c.workers, fill, work, take)
	return errors.Join(err, u.Close())
}

// lookUp finds the routes of the domains and adds their recipients to the plan. Domains not found within limit are uncounted.
func (p *planner) lookUp(ctx context.Context, limit time.Duration) error {
	lookupCtx := ctx
	if limit > 0 {
		var stop context.CancelFunc
		lookupCtx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	names, found := make(chan string), make(chan domain)
	var resolvers sync.WaitGroup
	for range min(p.c.cfg.Lookups, len(p.domains)) {
		resolvers.Go(func() {
			for name := range names {
				d := domain{name: name}
				if d.route.Fact = engine.FactDNSTimeout; lookupCtx.Err() == nil {
					d.route.Route = p.c.cfg.Resolver.Route(lookupCtx, name)
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
		case isUnresolved(&d):
			p.plan.Uncounted += int64(n)
		case !p.tally.Add(&d.route.Route, d.name, plan.Expect(n, p.plan.Refused)):
			p.plan.Unasked += int64(n)
		}
	}
	return ctx.Err()
}
