package bench

import (
	"bufio"
	"os"
	"runtime"
	"strings"
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
