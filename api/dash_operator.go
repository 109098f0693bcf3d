package api

import (
	"cmp"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/api/activity"
	"probity/api/httpd"
	"probity/api/record"
	"probity/api/rowsearch"
	"probity/api/web"
	"probity/coordinator/fleet"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/buildinfo"
	"probity/store"
)

// Operator is what operators see in addition to accounts and jobs. Each part may be nil: the page then says that this
// server does not have it.
type Operator struct {
	Table    func() *engine.Table       // the current table; default: the shipped one
	Cluster  func() fleet.ClusterReport // as "probity cluster --json"
	Findings func() any                 // the newest report of the doctor
	Metrics  prometheus.Gatherer        // the node's metrics
	Views    fleet.Views                // what operators see of the nodes and can do there
	Activity *activity.Recorder         // of the last 24 hours; its owner calls Run
}

// dashboardState is the dashboard's state in the server.
type dashboardState struct {
	streams   eventStreams
	summaries summaries
	searcher  *rowsearch.Searcher
	started   time.Time
	files     *web.Files
}

// operatorJob is a job as operators see it: its owner and its progress. Its content is visible only to its owner.
type operatorJob struct {
	Account string `json:"user_id"`
	User    string `json:"user"`
	*record.Job
}

// getAnyJob serves a job of any account.
func getAnyJob(c *call) error {
	j, err := c.srv.deps.Coordinator.Job(c.Param)
	if err != nil {
		return err
	}
	records, err := c.srv.loadJobs([]*store.Job{j})
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return store.ErrNotFound // deleted meanwhile
	}
	return c.SendJSON(httpd.StatusOK, operatorJob{j.Account, c.srv.accountName(j.Account), records[0]})
}

// listAllJobs serves a page of the jobs of all accounts.
func listAllJobs(c *call) error {
	q, err := jobQuery(c, maxPage)
	if err != nil {
		return err
	}
	if q.Account, err = accountFilter(c); err != nil {
		return err
	}
	q.AllAccounts, q.Count = q.Account == "", true
	page, err := c.srv.deps.Store.ListJobs(q)
	if err != nil {
		return err
	}
	records, err := c.srv.loadJobs(page.Jobs)
	if err != nil {
		return err
	}
	owners := make(map[string]string, len(page.Jobs))
	for _, j := range page.Jobs {
		owners[j.ID] = j.Account
	}
	list := make([]operatorJob, 0, len(records))
	for _, r := range records {
		list = append(list, operatorJob{owners[r.ID], c.srv.accountName(owners[r.ID]), r})
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"jobs": list, "total": page.Total,
		"next_cursor": nextCursor(page.Next)})
}

// getActivity serves what the server did in the last 24 hours.
func getActivity(c *call) error {
	r := c.srv.deps.Operator.Activity
	if r == nil {
		return httpd.Refuse(httpd.NotFound, "This server keeps no figures of the last day: look at its metrics.")
	}
	return activity.Send(c.Call, r, c.srv.now())
}

// nodeJSON is the state of this process.
type nodeJSON struct {
	Started        record.Time        `json:"started_at"`
	Ready          bool               `json:"ready"`
	NotReadyReason *string            `json:"not_ready_because"`
	Go             string             `json:"go_version"`
	Build          buildinfo.Build    `json:"build"`
	Goroutines     int                `json:"goroutines"`
	Heap           uint64             `json:"heap_bytes"`
	Memory         uint64             `json:"memory_bytes"`
	Streams        int                `json:"event_streams"`
	Metrics        map[string]float64 `json:"meters"`
	Cluster        any                `json:"cluster"`
	Findings       any                `json:"findings"`
}

func getNode(c *call) error {
	s := c.srv
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	n := nodeJSON{Started: record.Time(s.dashboard.started), Ready: true, Go: runtime.Version(), Build: s.deps.Build,
		Goroutines: runtime.NumGoroutine(),
		Heap:       m.HeapAlloc, Memory: m.Sys - m.HeapReleased, Metrics: map[string]float64{}}
	if err := s.Readiness(); err != nil {
		n.Ready, n.NotReadyReason = false, record.TextOrNil(err.Error())
	}
	s.dashboard.streams.mu.Lock()
	n.Streams = s.dashboard.streams.count
	s.dashboard.streams.mu.Unlock()
	o := s.deps.Operator
	if o.Cluster != nil {
		n.Cluster = o.Cluster()
	}
	if o.Findings != nil {
		n.Findings = o.Findings()
	}
	if err := s.readMetrics(n.Metrics); err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, n)
}

// readMetrics sums the metrics of probing and of jobs, by name and labels: "probity_prober_rows",
// "probity_prober_actions_total{pause}".
func (s *Server) readMetrics(into map[string]float64) error {
	from := s.deps.Operator.Metrics
	if from == nil {
		from, _ = s.deps.Metrics.(prometheus.Gatherer)
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
			key := name
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			if m.Counter != nil || m.Gauge != nil {
				into[key] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return nil
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

// listProviders serves the current table, and what the operator has changed in it.
func listProviders(c *call) error {
	shipped := engine.DefaultTable()
	table := shipped
	if c.srv.deps.Operator.Table != nil {
		table = c.srv.deps.Operator.Table()
	}
	list := []providerJSON{showProvider(table.Unknown, shipped.Unknown)}
	for _, p := range table.Providers {
		list = append(list, showProvider(p, shipped.Provider(p.ID)))
	}
	slices.SortStableFunc(list[1:], func(a, b providerJSON) int {
		return cmp.Compare(strings.ToLower(a.Name),
			strings.ToLower(b.Name))
	})
	return c.SendJSON(httpd.StatusOK, map[string]any{"providers": list, "in_force": c.srv.deps.Operator.Table != nil})
}

// showProvider shows a provider and how it differs from the shipped one, which may be nil.
func showProvider(p, was *engine.Provider) providerJSON {
	v := providerJSON{ID: p.ID, Name: p.Name, MX: append([]string{}, p.MX...), Wide: p.Kind == engine.KindWide,
		Kind: p.Kind.String(), AcceptAll: p.AcceptAll, Probe: p.Probe,
		TLS: p.TLS.String(), Limits: showLimits(p.Limits), Rules: len(p.Rules), Source: p.Source, Date: p.Date,
		Terms: p.Terms, Forbid: p.TermsForbid,
		TermsFrom: p.TermsSource, Changed: []string{}}
	if was == nil {
		v.Changed = append(v.Changed, "added")
		return v
	}
	for name, same := range map[string]bool{"limits": p.Limits == was.Limits, "probe": p.Probe == was.Probe,
		"accept_all": p.AcceptAll == was.AcceptAll,
		"kind":       p.Kind == was.Kind && p.FleetSources == was.FleetSources, "tls": p.TLS == was.TLS,
		"mx": slices.Equal(p.MX, was.MX), "rules": reflect.DeepEqual(p.Rules, was.Rules)} {
		if !same {
			v.Changed = append(v.Changed, name)
		}
	}
	slices.Sort(v.Changed)
	return v
}

// showLimits gives limits their names in the operator's file.
func showLimits(l engine.Limits) map[string]int {
	return map[string]int{"connections": l.Connections, "connections_per_minute": l.ConnectionsPerMinute,
		"recipients_per_minute":       l.RecipientsPerMinute,
		"recipients_per_transaction":  l.RecipientsPerTransaction,
		"recipients_per_connection":   l.RecipientsPerConnection,
		"transactions_per_connection": l.TransactionsPerConnection, "refusals_per_connection": l.RefusalsPerConnection,
		"refusals_per_hour": l.RefusalsPerHour}
}

// maxSummaries bounds the single calls that are kept for the operator.
const maxSummaries = 200

// summary is a single verification: its verdict, the reply and the rule. It has only the domain of the address.
type summary struct {
	At       record.Time `json:"at"`
	User     string      `json:"user"`
	Domain   string      `json:"domain"`
	Status   string      `json:"status"`
	Reason   *string     `json:"reason"`
	Rule     *string     `json:"rule"`
	Provider string      `json:"smtp_provider"`
	Host     *string     `json:"mx_host"`
	Stage    *string     `json:"stage"`
	Code     int         `json:"smtp_code"`
	Message  *string     `json:"smtp_message"`
	Attempts int         `json:"attempts"`
	Took     int64       `json:"duration_ms"`
	Cached   bool        `json:"from_cache"`
	Node     *string     `json:"checked_by"`
}

// summaries are the newest single calls, in a ring. They are formatted on request.
type summaries struct {
	mu   sync.Mutex // guards both
	ring [maxSummaries]recentSingle
	n    int
}

// recentSingle is an answered single verification. Its verdict must not be changed.
type recentSingle struct {
	at                 time.Time
	user, domain, node string
	verdict            engine.Verdict
	took               time.Duration
}

// rememberSingle keeps a single verification for the operator.
func rememberSingle(c *call, a *results.Single) {
	_, domain, _ := strings.Cut(a.Normalized, "@")
	c.srv.dashboard.summaries.add(&recentSingle{at: c.clockTime.Add(a.Took), user: c.identity.User.ID, domain: domain,
		node: a.Node, verdict: a.Verdict, took: a.Took})
}

func (s *summaries) add(one *recentSingle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring[s.n%maxSummaries] = *one
	s.n++
}

// newest lists the kept verifications, newest first.
func (s *summaries) newest() []summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]summary, 0, min(s.n, maxSummaries))
	for i := s.n - 1; i >= max(0, s.n-maxSummaries); i-- {
		list = append(list, s.ring[i%maxSummaries].summary())
	}
	return list
}

func (s *recentSingle) summary() summary {
	v, d := &s.verdict, &s.verdict.Details
	g := summary{At: record.Time(s.at), User: s.user, Domain: s.domain, Status: v.Status.String(),
		Reason: record.TextOrNil(v.Reason.String()),
		Rule:   record.TextOrNil(v.Rule), Provider: v.ProviderName, Host: record.TextOrNil(d.Host), Code: d.Code,
		Message:  record.TextOrNil(d.Message),
		Attempts: int(d.Attempts), Took: s.took.Milliseconds(), Cached: v.FromCache, Node: record.TextOrNil(s.node)}
	if d.Code != 0 {
		g.Stage = record.TextOrNil(d.Stage.String())
	}
	return g
}

func listProbes(c *call) error {
	list := c.srv.dashboard.summaries.newest()
	for i := range list {
		list[i].User = c.srv.accountName(list[i].User)
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"probes": list})
}
