package report

import (
	"os"
	"strings"

	"github.com/prometheus/procfs"
)

// readHardware adds what the kernel says of the processor and the memory.
func (m *Machine) readHardware() {
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(kernel))
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = cpus[0].ModelName
	}
	if mem, err := fs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		m.MemoryMB = int(*mem.MemTotalBytes >> 20)
	}
}
