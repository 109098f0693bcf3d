package api

import (
	"cmp"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/coordinator"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/store"
)

// Operator is what operators see in addition to accounts and jobs. Each part may be nil: the page then says that this server
// cannot tell.
type Operator struct {
	Table    func() *engine.Table // providers in force; default: the shipped table
	Cluster  func() any           // as "probity cluster --json"
	Findings func() any           // the newest report of the doctor
	Metrics  prometheus.Gatherer  // what the node counts
	Sights   fleet.Sights         // what nodes let operators see and do
}

// dashboard is what the pages' part of the server remembers.
type dashboard struct {
	feeds     feeds
	kept      kept
	glances   glances
	searching chan struct{} // one for each search under way
	started   time.Time
	site      *site
}

func isGone(err error) bool { return errors.Is(err, store.ErrNotFound) }

// operatorJob is a job as operators see it: whose it is, and how it goes. What is in it is its owner's alone.
type operatorJob struct {
	User string `json:"user"`
	*record
}

// listAllJobs serves a page of the jobs of all accounts, newest first.
func (x *exchange) listAllJobs() error {
	limit, err := x.queryNumber("limit", maxPage, 1, maxPage)
	if err != nil {
		return err
	}
	cursor, err := x.cursor()
	if err != nil {
		return err
	}
	state := store.JobState(x.query("status"))
	if state != "" && !knownState(state) {
		return refuse(unacceptable, "status must be a state of jobs, such as running or completed.")
	}
	var jobs []*store.Job
	total := 0
	keep := int(limit) + 1 // one more than a page: it tells whether there is a next one, and where that begins
	err = x.srv.rooms.Store.AllJobs(func(j *store.Job) error {
		if state != "" && j.State != state {
			return nil
		}
		total++
		if cursor != "" && placeOf(j) < cursor {
			return nil
		}
		if jobs = append(jobs, j); len(jobs) >= 2*maxPage+2 {
			jobs = newest(jobs, keep)
		}
		return nil
	})
	if err != nil {
		return err
	}
	jobs = newest(jobs, keep)
	next := ""
	if len(jobs) == keep {
		next, jobs = placeOf(jobs[limit]), jobs[:limit]
	}
	records, err := x.srv.recordsOf(jobs)
	if err != nil {
		return err
	}
	owners := make(map[string]string, len(jobs))
	for _, j := range jobs {
		owners[j.ID] = j.Account
	}
	list := make([]operatorJob, 0, len(records))
	for _, r := range records {
		list = append(list, operatorJob{x.srv.accountOf(owners[r.ID]), r})
	}
	return x.sendAs(statusOK, map[string]any{"jobs": list, "total": total, "next_cursor": nextCursor(next)})
}

// placeOf is where a job stands among all, the newest first, as a cursor.
func placeOf(j *store.Job) string {
	return string(binary.BigEndian.AppendUint64(nil, ^uint64(j.CreatedAt.UnixNano()))) + j.ID
}

// newest keeps the n jobs that were made last, in the order of their places.
func newest(jobs []*store.Job, n int) []*store.Job {
	slices.SortFunc(jobs, func(a, b *store.Job) int { return strings.Compare(placeOf(a), placeOf(b)) })
	return jobs[:min(n, len(jobs))]
}

// nodeJSON is what this process knows of itself.
type nodeJSON struct {
	Started    stamp              `json:"started_at"`
	Ready      bool               `json:"ready"`
	Why        *string            `json:"not_ready_because"`
	Go         string             `json:"go_version"`
	Revision   string             `json:"revision"`
	Goroutines int                `json:"goroutines"`
	Heap       uint64             `json:"heap_bytes"`
	Memory     uint64             `json:"memory_bytes"`
	Streams    int                `json:"event_streams"`
	Meters     map[string]float64 `json:"meters"`
	Cluster    any                `json:"cluster"`
	Findings   any                `json:"findings"`
}

func (x *exchange) getNode() error {
	s := x.srv
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	n := nodeJSON{Started: stamp(s.dash.started), Ready: true, Go: runtime.Version(), Revision: Revision(), Goroutines: runtime.NumGoroutine(),
		Heap: m.HeapAlloc, Memory: m.Sys - m.HeapReleased, Meters: map[string]float64{}}
	if err := s.readiness(); err != nil {
		n.Ready, n.Why = false, textOrNil(err.Error())
	}
	s.dash.feeds.mu.Lock()
	n.Streams = s.dash.feeds.all
	s.dash.feeds.mu.Unlock()
	o := s.rooms.Operator
	if o.Cluster != nil {
		n.Cluster = o.Cluster()
	}
	if o.Findings != nil {
		n.Findings = o.Findings()
	}
	if err := s.readMeters(n.Meters); err != nil {
		return err
	}
	return x.sendAs(statusOK, n)
}

// Revision is that of the checkout that this program was built from, shortened; empty where it is not known.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}

// readMeters sums what is counted of probing and of jobs, by name and by labels: "probity_prober_rows",
// "probity_prober_actions_total{pause}".
func (s *Server) readMeters(into map[string]float64) error {
	from := s.rooms.Operator.Metrics
	if from == nil {
		from, _ = s.rooms.Metrics.(prometheus.Gatherer)
	}
	if from == nil {
		return nil
	}
	families, err := from.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "probity_") || strings.HasPrefix(name, "probity_http_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if m.Counter != nil || m.Gauge != nil {
				into[meterName(name, labels)] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return nil
}

func meterName(name string, labels []string) string {
	if labels == nil {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

// providerJSON is a row of the provider table.
type providerJSON struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	MX        []string       `json:"mx"`
	Wide      bool           `json:"wide"`
	Kind      string         `json:"kind"`
	AcceptAll bool           `json:"accept_all"`
	Probe     bool           `json:"probe"`
	TLS       string         `json:"tls"`
	Limits    map[string]int `json:"limits"`
	Rules     int            `json:"rules"`
	Source    string         `json:"source"`
	Date      string         `json:"date"`
	Terms     string         `json:"terms"`
	Forbid    bool           `json:"terms_forbid"`
	TermsFrom string         `json:"terms_source"`
	Changed   []string       `json:"overridden"`
}

// listProviders serves the table in force, and what of it the operator has changed.
func (x *exchange) listProviders() error {
	shipped := engine.DefaultTable()
	table := shipped
	if x.srv.rooms.Operator.Table != nil {
		table = x.srv.rooms.Operator.Table()
	}
	list := []providerJSON{showProvider(table.Unknown, shipped.Unknown)}
	for _, p := range table.Providers {
		list = append(list, showProvider(p, shipped.Provider(p.ID)))
	}
	slices.SortStableFunc(list[1:], func(a, b providerJSON) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return x.sendAs(statusOK, map[string]any{"providers": list, "in_force": x.srv.rooms.Operator.Table != nil})
}

// showProvider shows a provider next to the one that was shipped, nil where none was.
func showProvider(p, was *engine.Provider) providerJSON {
	v := providerJSON{ID: p.ID, Name: p.Name, MX: append([]string{}, p.MX...), Wide: p.Kind == engine.KindWide, Kind: p.Kind.String(), AcceptAll: p.AcceptAll, Probe: p.Probe,
		TLS: p.TLS.String(), Limits: showLimits(p.Limits), Rules: len(p.Rules), Source: p.Source, Date: p.Date, Terms: p.Terms, Forbid: p.TermsForbid,
		TermsFrom: p.TermsSource, Changed: []string{}}
	if was == nil {
		v.Changed = append(v.Changed, "added")
		return v
	}
	for name, same := range map[string]bool{"limits": p.Limits == was.Limits, "probe": p.Probe == was.Probe, "accept_all": p.AcceptAll == was.AcceptAll,
		"kind": p.Kind == was.Kind && p.FleetSources == was.FleetSources, "tls": p.TLS == was.TLS, "mx": slices.Equal(p.MX, was.MX), "rules": sameRules(p.Rules, was.Rules)} {
		if !same {
			v.Changed = append(v.Changed, name)
		}
	}
	slices.Sort(v.Changed)
	return v
}

// showLimits gives limits the names that they have in the file of overrides.
func showLimits(l engine.Limits) map[string]int {
	return map[string]int{"connections": l.Connections, "connections_per_minute": l.ConnectionsPerMinute, "recipients_per_minute": l.RecipientsPerMinute,
		"recipients_per_transaction": l.RecipientsPerTransaction, "recipients_per_connection": l.RecipientsPerConnection,
		"transactions_per_connection": l.TransactionsPerConnection, "refusals_per_connection": l.RefusalsPerConnection,
		"refusals_per_hour": l.RefusalsPerHour}
}

func sameRules(a, b []engine.Rule) bool { return reflect.DeepEqual(a, b) }

// maxGlances bounds the singles that are remembered for the operator.
const maxGlances = 200

// glance is a single verification, from its verdict back to the reply and the rule. The address is not in it, only what
// stands behind the @.
type glance struct {
	At       stamp   `json:"at"`
	User     string  `json:"user"`
	Domain   string  `json:"domain"`
	Status   string  `json:"status"`
	Reason   *string `json:"reason"`
	Rule     *string `json:"rule"`
	Provider string  `json:"smtp_provider"`
	Host     *string `json:"mx_host"`
	Stage    *string `json:"stage"`
	Code     int     `json:"smtp_code"`
	Message  *string `json:"smtp_message"`
	Attempts int     `json:"attempts"`
	Took     int64   `json:"duration_ms"`
	Cached   bool    `json:"from_cache"`
	Node     *string `json:"checked_by"`
}

// glances are the newest singles, in a ring. They are put into words when somebody looks.
type glances struct {
	mu   sync.Mutex // guards both
	ring [maxGlances]seenSingle
	n    int
}

// seenSingle is a single verification as it was answered. Its verdict must not be changed.
type seenSingle struct {
	at                 time.Time
	user, domain, node string
	verdict            engine.Verdict
	took               time.Duration
}

// saw remembers a single verification for the operator.
func (x *exchange) saw(a *coordinator.Result) {
	_, domain, _ := strings.Cut(a.Normalized, "@")
	x.srv.dash.glances.add(&seenSingle{at: x.at.Add(a.Took), user: x.who.User.ID, domain: domain, node: a.Node, verdict: a.Verdict, took: a.Took})
}

func (g *glances) add(one *seenSingle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ring[g.n%maxGlances] = *one
	g.n++
}

// newest lists what is remembered, the last first.
func (g *glances) newest() []glance {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]glance, 0, min(g.n, maxGlances))
	for i := g.n - 1; i >= max(0, g.n-maxGlances); i-- {
		list = append(list, g.ring[i%maxGlances].glance())
	}
	return list
}

func (s *seenSingle) glance() glance {
	v, d := &s.verdict, &s.verdict.Details
	g := glance{At: stamp(s.at), User: s.user, Domain: s.domain, Status: v.Status.String(), Reason: textOrNil(v.Reason.String()),
		Rule: textOrNil(v.Rule), Provider: v.ProviderName, Host: textOrNil(d.Host), Code: d.Code, Message: textOrNil(d.Message),
		Attempts: int(d.Attempts), Took: s.took.Milliseconds(), Cached: v.FromCache, Node: textOrNil(s.node)}
	if d.Code != 0 {
		g.Stage = textOrNil(d.Stage.String())
	}
	return g
}

func (x *exchange) listProbes() error {
	list := x.srv.dash.glances.newest()
	for i := range list {
		list[i].User = x.srv.accountOf(list[i].User)
	}
	return x.sendAs(statusOK, map[string]any{"probes": list})
}
