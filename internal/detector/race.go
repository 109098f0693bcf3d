//go:build race

package detector

// On is whether this binary has the race detector, which costs several times the CPU time: bounds of real time do not
// hold with it.
const On = true
