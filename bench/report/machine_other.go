//go:build !linux

package report

// readHardware adds nothing: elsewhere there is no /proc.
func (*Machine) readHardware() {}
