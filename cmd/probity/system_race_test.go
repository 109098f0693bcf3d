//go:build race

package main

// raceEnabled says that this binary watches for data races, at several times the cost: bounds of real time are not held.
const raceEnabled = true
