package app

import (
	"crypto/tls"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"probity/coordinator/fleet"
	"probity/internal/buildinfo"
	"probity/internal/certs"
	"probity/internal/tlsfront"
	"probity/prober/wire"
)

// healthMetrics collects the alert metrics that no component has: those of the process, its machine and its
// certificates. A nil or empty field has no metric.
type healthMetrics struct {
	build        buildinfo.Build
	disk         vfs.FS
	dir          string // data folder
	diskFloor    int64  // bytes; 0: none
	report       func() fleet.ClusterReport
	tlsListener  *tlsfront.Listener
	certExpiries map[string]time.Time      // expiry of certificates by name, read at the start
	backup       func() (time.Time, error) // time of the last one
	// reloadFailed is set while the last reload was refused.
	reloadFailed atomic.Bool
}

var (
	buildDesc = prometheus.NewDesc("probity_build_info", "1, with what runs as labels.",
		[]string{"version", "commit", "date", "go"}, nil)
	diskFreeDesc = prometheus.NewDesc("probity_disk_free_bytes",
		"Free bytes of the disk that the data folder is on.", nil, nil)
	diskFloorDesc = prometheus.NewDesc("probity_disk_floor_bytes",
		"Free bytes below which uploads are refused.", nil, nil)
	certExpiryDesc = prometheus.NewDesc("probity_certificate_expiry_timestamp_seconds",
		"When a certificate in use ends, Unix time.", []string{"certificate"}, nil)
	acmeDesc = prometheus.NewDesc("probity_acme_failures_total",
		"Requests to the ACME authority that failed, and handshakes that ended for want of a certificate.", nil, nil)
	backupDesc = prometheus.NewDesc("probity_backup_last_timestamp_seconds",
		"When the last backup was taken, Unix time; 0 for never.", nil, nil)
	reloadDesc = prometheus.NewDesc("probity_reload_failed",
		"1 when the last reload was refused and everything stayed as it was.", nil, nil)
	identityDesc = prometheus.NewDesc("probity_identities",
		"Egress sources by state: ok, quarantined (everywhere), down (cannot connect), unknown.",
		[]string{"node", "state"}, nil)
	problemDesc = prometheus.NewDesc("probity_cluster_problems",
		"What is wrong with the cluster as a whole: rival coordinators, or gossip that is not to be trusted.", nil, nil)
)

// identityStates are all states of an egress source, so that each has its metric.
var identityStates = [...]string{"ok", "quarantined", "down", "unknown"}

// Describe and Collect make it a prometheus.Collector.
func (hm *healthMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{buildDesc, diskFreeDesc, diskFloorDesc, certExpiryDesc, acmeDesc,
		backupDesc,
		reloadDesc, identityDesc, problemDesc} {
		to <- d
	}
}

// Collect queries the disk and the cluster once.
func (hm *healthMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(buildDesc, 1, hm.build.Version, hm.build.Commit, hm.build.Date, runtime.Version())
	if use, err := hm.disk.GetDiskUsage(hm.dir); err == nil {
		gauge(diskFreeDesc, float64(use.AvailBytes))
	}
	if hm.diskFloor > 0 {
		gauge(diskFloorDesc, float64(hm.diskFloor))
	}
	for name, ends := range hm.certExpiries {
		gauge(certExpiryDesc, float64(ends.Unix()), name)
	}
	public := "public"
	if failures, isACME := hm.tlsListener.ACMEFailures(); isACME {
		public = "acme" // renewed by itself, so its alert is a later one
		to <- prometheus.MustNewConstMetric(acmeDesc, prometheus.CounterValue, float64(failures))
	}
	if ends := hm.tlsListener.Expiry(); !ends.IsZero() {
		gauge(certExpiryDesc, float64(ends.Unix()), public)
	}
	if hm.backup != nil {
		if at, err := hm.backup(); err != nil {
			to <- prometheus.NewInvalidMetric(backupDesc, err)
		} else {
			seconds := 0.0 // for never
			if !at.IsZero() {
				seconds = float64(at.Unix())
			}
			gauge(backupDesc, seconds)
		}
	}
	gauge(reloadDesc, boolToFloat(hm.reloadFailed.Load()))
	r := hm.report()
	gauge(problemDesc, float64(len(r.Rivals))+boolToFloat(r.Problem != ""))
	for i := range r.Nodes {
		states := map[string]int{}
		for _, id := range r.Nodes[i].Identities {
			state := id.State
			if state == wire.StateTrial { // a source on its trial connection counts as quarantined
				state = wire.StateQuarantined
			}
			states[state]++
		}
		for _, state := range identityStates {
			gauge(identityDesc, float64(states[state]), r.Nodes[i].Name, state)
		}
	}
}

func boolToFloat(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// recordingFailure wraps reload so that a failure shows in the metrics.
func (hm *healthMetrics) recordingFailure(reload func() error) func() error {
	return func() error {
		err := reload()
		hm.reloadFailed.Store(err != nil)
		return err
	}
}

// certExpiries are the expiry times of a member's certificates.
func (f *memberFlags) certExpiries() map[string]time.Time {
	expiries := map[string]time.Time{}
	if own, err := tls.LoadX509KeyPair(f.NodeCert, f.NodeKey); err == nil {
		expiries["node"] = own.Leaf.NotAfter
	}
	if authority, err := certs.Read(f.NodeCA); err == nil {
		expiries["authority"] = authority.NotAfter
	}
	return expiries
}
