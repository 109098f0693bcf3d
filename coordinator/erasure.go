package coordinator

import (
	"context"
	"sync"
	"time"

	"probity/coordinator/erase"
	"probity/engine"
)

// ForErasure returns what an erasure needs of the jobs.
func (c *Coordinator) ForErasure() *erase.Jobs {
	return &erase.Jobs{
		Store: c.cfg.Store, Files: c.files, Encoder: c.encoder, Workers: c.workers, Slot: c.eraseSlots,
		Suggest:   func(a engine.Address) string { return (*c.lists.Load()).Suggest(a) },
		Interrupt: c.interrupt, RemoveOrphans: c.removeOrphans, Remake: c.resultFiles.Remake,
	}
}

// notifyEvery is how often a runner is asked again for the lock of its job: a notification between two steps is lost.
const notifyEvery = 20 * time.Millisecond

// interrupt makes the runner of a job stop, as for a pause but without a change of state, and takes the job's lock.
func (c *Coordinator) interrupt(ctx context.Context, id string) (unlock func(), err error) {
	locked := make(chan struct{})
	var notifying sync.WaitGroup
	notifying.Go(func() {
		t := time.NewTicker(notifyEvery)
		defer t.Stop()
		for {
			c.mu.Lock()
			if r := c.runners[id]; r != nil {
				r.wake.Notify()
			}
			c.mu.Unlock()
			select {
			case <-t.C:
			case <-locked:
				return
			}
		}
	})
	unlock, err = c.files.Lock(ctx, id)
	close(locked)
	notifying.Wait()
	return unlock, err
}
