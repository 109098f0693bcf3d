package bench

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine is where a report was made: numbers of different machines are not to be compared.
type Machine struct {
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB int    `json:"memory_mb"` // 0 when not known
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
}

// thisMachine reads what the system tells of itself.
func thisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(kernel))
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = cpus[0].ModelName
	}
	if mem, err := fs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		m.MemoryMB = int(*mem.MemTotalBytes >> 20)
	}
	return m
}

// cpuUsage is how much CPU time went where, up to a moment.
type cpuUsage struct {
	at   time.Time
	busy time.Duration // of the whole machine; 0 when the system does not tell
	// What a virtual machine wanted of its host and did not get, which is part of busy; 0 when the system does not tell.
	stolen time.Duration
	own    time.Duration // of this process and those that it started and that have ended
}

func readCPUUsage() cpuUsage {
	busy, stolen := busySoFar()
	return cpuUsage{at: time.Now(), busy: busy, stolen: stolen, own: ownCPU() + childrenCPU()}
}

// busySoFar is what all cores have done but for what is idle; what the host has stolen is part of it.
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

// notableOtherCores is how many cores others may use before a reader should know.
const notableOtherCores = 0.25

// reportOthers notes how many cores the rest of the machine used since before.
func (r *Report) reportOthers(before, now cpuUsage) {
	passed := now.at.Sub(before.at)
	if before.busy == 0 || now.busy == 0 || passed <= 0 {
		return
	}
	cores := max(0, float64(now.busy-before.busy-(now.own-before.own))/float64(passed))
	r.metric("cores_used_by_others", cores, "")
	if cores > notableOtherCores {
		r.remark("others used %.2f of this machine's %d cores meanwhile: what is counted in seconds is slower than it need be, and a ratio "+
			"of two times says less than that of two CPU times", cores, r.Machine.Cores)
	}
}

// reportStolen notes what the machine's host kept from it since before, on a virtual machine: who is answered late may have
// waited for the host.
func (r *Report) reportStolen(name string, before, now cpuUsage) {
	if before.busy == 0 || now.busy == 0 {
		return
	}
	r.metric(name, milliseconds(now.stolen-before.stolen), "ms")
}
