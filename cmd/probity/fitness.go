package main

import (
	"crypto/tls"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"probity/api"
	"probity/coordinator/fleet"
	"probity/prober/wire"
)

// metricsRegistry takes the metrics of the rooms, and shows them.
type metricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// fitness is what an operator is woken for and no room knows: it belongs to the process, its machine and its papers. Fields
// that are nil or empty have no line of their own.
type fitness struct {
	disk   vfs.FS
	dir    string // of data
	floor  int64  // bytes; 0: none
	report func() fleet.ClusterReport
	front  *front
	papers map[string]time.Time      // ends of certificates by name, read at the start
	backup func() (time.Time, error) // when the last one was made
	// failed is whether the last reload was refused.
	failed atomic.Bool
}

var (
	buildDesc    = prometheus.NewDesc("probity_build_info", "1, with what runs as labels.", []string{"version", "revision", "go"}, nil)
	freeDesc     = prometheus.NewDesc("probity_disk_free_bytes", "Free bytes of the disk that the data folder is on.", nil, nil)
	floorDesc    = prometheus.NewDesc("probity_disk_floor_bytes", "Free bytes below which uploads are refused.", nil, nil)
	paperDesc    = prometheus.NewDesc("probity_certificate_expiry_timestamp_seconds", "When a certificate in use ends, Unix time.", []string{"certificate"}, nil)
	backupDesc   = prometheus.NewDesc("probity_backup_last_timestamp_seconds", "When the last backup was taken, Unix time; 0 for never.", nil, nil)
	reloadDesc   = prometheus.NewDesc("probity_reload_failed", "1 when the last reload was refused and everything stayed as it was.", nil, nil)
	identityDesc = prometheus.NewDesc("probity_identities", "Egress identities by state: ok, resting (no receiver is asked), sick (cannot connect), unknown.", []string{"node", "state"}, nil)
	problemDesc  = prometheus.NewDesc("probity_cluster_problems", "What is wrong with the cluster as a whole: rival coordinators, or gossip that is not to be trusted.", nil, nil)
)

// identityStates are all that an identity can be in, so that each has its line.
var identityStates = [...]string{"ok", "resting", "sick", "unknown"}

// Describe and Collect make it a prometheus.Collector.
func (f *fitness) Describe(to chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{buildDesc, freeDesc, floorDesc, paperDesc, backupDesc, reloadDesc, identityDesc, problemDesc} {
		to <- d
	}
}

// Collect asks the disk and the cluster once.
func (f *fitness) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(buildDesc, 1, version, api.Revision(), runtime.Version())
	if use, err := f.disk.GetDiskUsage(f.dir); err == nil {
		gauge(freeDesc, float64(use.AvailBytes))
	}
	if f.floor > 0 {
		gauge(floorDesc, float64(f.floor))
	}
	for name, ends := range f.papers {
		gauge(paperDesc, float64(ends.Unix()), name)
	}
	if ends := f.front.ends(); !ends.IsZero() {
		gauge(paperDesc, float64(ends.Unix()), "public")
	}
	if f.backup != nil {
		if at, err := f.backup(); err != nil {
			to <- prometheus.NewInvalidMetric(backupDesc, err)
		} else {
			gauge(backupDesc, unixOrZero(at))
		}
	}
	gauge(reloadDesc, oneIf(f.failed.Load()))
	f.collectCluster(gauge)
}

// alertOf is the state that an operator is woken for: a source that is about to be tried still rests.
func alertOf(state string) string {
	if state == wire.StateCanary {
		return wire.StateResting
	}
	return state
}

func (f *fitness) collectCluster(gauge func(*prometheus.Desc, float64, ...string)) {
	r := f.report()
	gauge(problemDesc, float64(len(r.Rivals))+oneIf(r.Problem != ""))
	for i := range r.Nodes {
		states := map[string]int{}
		for _, id := range r.Nodes[i].Identities {
			states[alertOf(id.State)]++
		}
		for _, state := range identityStates {
			gauge(identityDesc, float64(states[state]), r.Nodes[i].Name, state)
		}
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func unixOrZero(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// watched is a reload whose refusal shows in the metrics.
func (f *fitness) watched(reload func() error) func() error {
	return func() error {
		err := reload()
		f.failed.Store(err != nil)
		return err
	}
}

// papersOf are the ends of a member's certificates.
func (f *memberFlags) papersOf() map[string]time.Time {
	papers := map[string]time.Time{}
	if own, err := tls.LoadX509KeyPair(f.NodeCert, f.NodeKey); err == nil {
		papers["node"] = own.Leaf.NotAfter
	}
	if authority, err := readCert(f.NodeCA); err == nil {
		papers["authority"] = authority.NotAfter
	}
	return papers
}
