package main

type demoCmd struct{}

// Run is written next.
func (demoCmd) Run() error { return nil }
