package process

import (
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"probity/bench/report"
)

// Sample is the resource use of a process at one moment after its start.
type Sample struct {
	At   time.Duration
	RSS  int64 // bytes resident
	Peak int64 // the highest so far
	CPU  time.Duration
}

// sampleProcess samples a running process; false if it has ended or the system has no /proc.
func sampleProcess(pid int) (Sample, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Sample{}, false
	}
	status, err := p.NewStatus()
	if err != nil {
		return Sample{}, false
	}
	stat, err := p.Stat()
	if err != nil {
		return Sample{}, false
	}
	s := Sample{RSS: int64(status.VmRSS), Peak: int64(status.VmHWM), CPU: seconds(stat.CPUTime())}
	return s, s.RSS > 0 // a zombie has no memory any more
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// OwnCPU is the CPU time of this process so far.
func OwnCPU() time.Duration { return cpuOf(syscall.RUSAGE_SELF) }

// cpuOf is the CPU time of this process, or of its children that have ended and been waited for.
func cpuOf(who int) time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(who, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// DatagramsLost counts the UDP datagrams that this machine has dropped because a socket's buffer was full; 0 if
// unknown.
func DatagramsLost() int64 {
	p, err := procfs.Self()
	if err != nil {
		return 0
	}
	snmp, err := p.Snmp()
	if err != nil {
		return 0
	}
	lost := 0.0
	for _, n := range []*float64{snmp.Udp.RcvbufErrors, snmp.Udp.SndbufErrors} {
		if n != nil {
			lost += *n
		}
	}
	return int64(lost)
}

// MemorySeries is the resident memory of a process.
func MemorySeries(name string, samples []Sample) report.Series {
	s := report.Series{Name: name, Unit: "MB"}
	for _, p := range samples {
		s.Add(p.At, float64(p.RSS)/1e6)
	}
	return s
}
