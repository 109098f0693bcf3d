package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, the unit of /proc/PID/stat: 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// Sample is what a process had used at one moment after its start.
type Sample struct {
	At   time.Duration
	RSS  int64 // bytes resident
	Peak int64 // the most that ever were
	CPU  time.Duration
}

// sampleProcess reads a living process; false when it is gone or the system has no /proc.
func sampleProcess(pid int) (Sample, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Sample{}, false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Sample{}, false
	}
	s := parseStatus(string(status))
	s.CPU = parseStatCPU(string(stat))
	return s, s.RSS > 0 // a zombie has no memory any more
}

// parseStatus reads VmRSS and VmHWM of /proc/PID/status.
func parseStatus(text string) (s Sample) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			s.RSS = parseKB(value)
		case "VmHWM":
			s.Peak = parseKB(value)
		}
	}
	return s
}

// parseKB reads "  1234 kB" as bytes; 0 when it is no such thing.
func parseKB(value string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n << 10
}

// parseStatCPU reads utime and stime, fields 14 and 15 of /proc/PID/stat. The second field is the command's name in
// parentheses and may hold anything, so fields are counted from the last parenthesis.
func parseStatCPU(text string) time.Duration {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[utime], 10, 64)
	system, err2 := strconv.ParseInt(fields[stime], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * (time.Second / ticksPerSecond)
}

// ownCPU is the CPU time of this process so far.
func ownCPU() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// childrenCPU is the CPU time of the processes that this one has started and waited for.
func childrenCPU() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// datagramsLost counts the UDP datagrams that this machine has dropped for want of room in a socket's buffer; 0 when the
// system does not tell.
func datagramsLost() int64 { return parseLost(readShort("/proc/net/snmp")) }

// parseLost reads RcvbufErrors and SndbufErrors from the two lines of names and values that begin with "Udp:".
func parseLost(text string) (lost int64) {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			if names[i] == "RcvbufErrors" || names[i] == "SndbufErrors" {
				n, _ := strconv.ParseInt(fields[i], 10, 64) // what is no number counts nothing
				lost += n
			}
		}
	}
	return lost
}
