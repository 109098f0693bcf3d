package report

import "runtime"

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
	m.readHardware()
	return m
}
