package bench

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
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
	return Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		CPU:      firstField("/proc/cpuinfo", "model name"),
		MemoryMB: int(parseKB(firstField("/proc/meminfo", "MemTotal")) >> 20),
		Kernel:   strings.TrimSpace(readShort("/proc/sys/kernel/osrelease")),
	}
}

// firstField is the value of the first "key : value" line of a file under /proc; "" without one.
func firstField(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func readShort(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(data)
}

// effort is how much CPU time went where, up to a moment.
type effort struct {
	at   time.Time
	busy time.Duration // of the whole machine; 0 when the system does not tell
	// What a virtual machine wanted of its host and did not get, which is part of busy; 0 when the system does not tell.
	stolen time.Duration
	ours   time.Duration // of this process and those that it started and that have ended
}

func effortSoFar() effort {
	busy, stolen := parseBusy(readShort("/proc/stat"))
	return effort{at: time.Now(), busy: busy, stolen: stolen, ours: ownCPU() + childrenCPU()}
}

// parseBusy adds up the first line of /proc/stat but for what is idle: user, nice, system, then irq, softirq and steal. The last
// is told apart, too.
func parseBusy(text string) (busy, stolen time.Duration) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	const steal = 8
	for _, i := range [...]int{1, 2, 3, 6, 7, steal} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, 0
		}
		spent := time.Duration(ticks) * (time.Second / ticksPerSecond)
		busy += spent
		if i == steal {
			stolen = spent
		}
	}
	return busy, stolen
}

// muchElse is how many cores others may use before a reader should know.
const muchElse = 0.25

// reportOthers notes how many cores the rest of the machine used since before.
func (r *Report) reportOthers(before, now effort) {
	passed := now.at.Sub(before.at)
	if before.busy == 0 || now.busy == 0 || passed <= 0 {
		return
	}
	cores := max(0, float64(now.busy-before.busy-(now.ours-before.ours))/float64(passed))
	r.metric("cores_used_by_others", cores, "")
	if cores > muchElse {
		r.remark("others used %.2f of this machine's %d cores meanwhile: what is counted in seconds is slower than it need be, and a ratio "+
			"of two times says less than that of two CPU times", cores, r.Machine.Cores)
	}
}

// reportStolen notes what the machine's host kept from it since before, on a virtual machine: who is answered late may have
// waited for the host.
func (r *Report) reportStolen(name string, before, now effort) {
	if before.busy == 0 || now.busy == 0 {
		return
	}
	r.metric(name, milliseconds(now.stolen-before.stolen), "ms")
}
