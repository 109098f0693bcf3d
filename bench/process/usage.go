package process

import (
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"probity/bench/report"
)

// Usage is the CPU time used up to a moment.
type Usage struct {
	at   time.Time
	busy time.Duration // of the whole machine; 0 if unknown
	// Steal time of a virtual machine: withheld by its host. It is part of busy; 0 if unknown.
	stolen time.Duration
	own    time.Duration // of this process and of its children that have ended
}

// ReadUsage reads what has been used so far: by the machine, by this process and by those that it has waited for.
func ReadUsage() Usage {
	busy, stolen := busySoFar()
	return Usage{at: time.Now(), busy: busy, stolen: stolen, own: OwnCPU() + cpuOf(syscall.RUSAGE_CHILDREN)}
}

// busySoFar is the time of all cores that was not idle, steal time included.
func busySoFar() (busy, stolen time.Duration) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, 0
	}
	c := stat.CPUTotal
	return seconds(c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal), seconds(c.Steal)
}

// notableOtherCores is how many cores other processes may use before the report gets a remark.
const notableOtherCores = 0.25

// ReportOthers reports how many cores the rest of the machine used since before.
func ReportOthers(r *report.Report, before, now Usage) {
	passed := now.at.Sub(before.at)
	if before.busy == 0 || now.busy == 0 || passed <= 0 {
		return
	}
	cores := max(0, float64(now.busy-before.busy-(now.own-before.own))/float64(passed))
	r.Metric("cores_used_by_others", cores, "")
	if cores > notableOtherCores {
		r.Note("others used %.2f of this machine's %d cores meanwhile: what is counted in seconds is slower than it need be, and a ratio "+
			"of two times says less than that of two CPU times", cores, r.Machine.Cores)
	}
}

// ReportStolen reports the steal time of a virtual machine since before: a late answer may have waited for the
// host.
func ReportStolen(r *report.Report, name string, before, now Usage) {
	if before.busy == 0 || now.busy == 0 {
		return
	}
	r.Metric(name, float64(now.stolen-before.stolen)/float64(time.Millisecond), "ms")
}
