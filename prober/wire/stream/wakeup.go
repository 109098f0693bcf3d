package stream

// wakeup tells a goroutine that something has changed. Signals that come before it looks are one.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (w wakeup) signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}
