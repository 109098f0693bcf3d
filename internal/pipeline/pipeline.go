package pipeline

import (
	"context"
	"errors"
	"io"
	"sync"
)

// slot is an item, and the channel for its worker's result. A slot is free, filled, worked on, taken in order, and free again.
type slot[T any] struct {
	item *T
	done chan error
}

// Run runs a pipeline: fill makes items one after another until io.EOF, workers process them in parallel, and take
// gets them in the order in which they were made. Items are reused; there are workers+2 of them, which bounds the memory.
// The first error or panic in item order ends the pipeline. All its goroutines have ended when it returns.
func Run[T any](items *Pool[T], workers int, fill, work, take func(*T) error) error {
	all := make([]*T, workers+2)
	// Each channel has capacity for all slots: a send never blocks.
	free, filled, results := make(chan slot[T], len(all)), make(chan slot[T], len(all)), make(chan slot[T], len(all))
	for i := range all {
		all[i] = items.Get()
		free <- slot[T]{all[i], make(chan error, 1)}
	}
	stop := make(chan struct{})
	var ended error // of fill
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for s := range filled {
				s.done <- Contain(func() error { return work(s.item) })
			}
		})
	}
	running.Go(func() {
		defer close(results)
		defer close(filled)
		for {
			var s slot[T]
			select {
			case s = <-free:
			case <-stop:
				return
			}
			if ended = Contain(func() error { return fill(s.item) }); ended != nil {
				return
			}
			results <- s
			filled <- s
		}
	})
	var failed error
	for s := range results {
		err := <-s.done
		if failed != nil {
			continue // only waits for the remaining items
		}
		if err == nil {
			err = Contain(func() error { return take(s.item) })
		}
		if err != nil {
			failed = err
			close(stop)
			continue
		}
		free <- s
	}
	running.Wait()
	for _, item := range all {
		items.Put(item)
	}
	switch {
	case failed != nil:
		return failed
	case errors.Is(ended, io.EOF):
		return nil
	}
	return ended
}

// Indexes returns a fill function of Run for n items, which sets the index of each, until ctx ends.
func Indexes[T any](ctx context.Context, n int, set func(item *T, i int)) func(*T) error {
	next := 0
	return func(item *T) error {
		if next == n {
			return io.EOF
		}
		set(item, next)
		next++
		return ctx.Err()
	}
}
