package nodeflags

import "syscall"

// staUnsync is STA_UNSYNC of adjtimex(2): the clock is not synchronized.
const staUnsync = 0x40

// clockSynced asks the kernel whether a time service synchronizes the clock.
func clockSynced() (synced, known bool) {
	var t syscall.Timex
	if _, err := syscall.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&staUnsync == 0, true
}
