//go:build race

package harness

// RaceEnabled says that this binary has the race detector, which costs several times the CPU time: bounds of real time do not hold.
const RaceEnabled = true
