package report

import (
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// Machine describes where a report was made. Numbers of different machines must not be compared.
type Machine struct {
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB int    `json:"memory_mb"` // 0 if unknown
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
}

// ReadMachine reads the data of this system.
func ReadMachine() Machine {
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
