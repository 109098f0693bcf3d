package pipeline

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Run runs a pipeline: fill makes items one after another until io.EOF, workers process them in parallel, and take
// gets them in the order in which they were made. Items are reused; there are workers+2 of them, which bounds the memory.
// The first error or panic in item order ends the pipeline. All its goroutines have ended when it returns.
func Run[T any](items *Pool[T], workers int, fill, work, take func(*T) error) error {
	r := newRunner(items, workers+2)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { r.runWorker(work) })
	}
	var ended error
	all.Go(func() { ended = r.fill(fill) })
	failed := r.drain(take)
	all.Wait()
	r.releaseItems(items)
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

// runner holds the slots of Run. A slot is free, filled, worked on, taken in order, and free again.
type runner[T any] struct {
	items               []*T
	free, work, results chan slot[T] // each has capacity for all slots: a send never blocks
	stop                chan struct{}
}

// slot is an item, and the channel for its worker's result.
type slot[T any] struct {
	item *T
	done chan error
}

func newRunner[T any](items *Pool[T], slots int) *runner[T] {
	r := &runner[T]{free: make(chan slot[T], slots), work: make(chan slot[T], slots), results: make(chan slot[T], slots), stop: make(chan struct{})}
	for range slots {
		item := items.Get()
		r.items = append(r.items, item)
		r.free <- slot[T]{item, make(chan error, 1)}
	}
	return r
}

// releaseItems returns the items to the pool, after all goroutines of the pipeline have ended.
func (r *runner[T]) releaseItems(items *Pool[T]) {
	for _, item := range r.items {
		items.Put(item)
	}
}

// fill fills items until the fill function returns an error (io.EOF at the end) or the pipeline stops.
func (r *runner[T]) fill(fill func(*T) error) error {
	defer close(r.results)
	defer close(r.work)
	for {
		var s slot[T]
		select {
		case s = <-r.free:
		case <-r.stop:
			return nil
		}
		if err := Contain(func() error { return fill(s.item) }); err != nil {
			return err
		}
		r.results <- s
		r.work <- s
	}
}

func (r *runner[T]) runWorker(work func(*T) error) {
	for s := range r.work {
		s.done <- Contain(func() error { return work(s.item) })
	}
}

// drain takes items in order until there are no more or one has failed; then it only waits for the remaining ones.
func (r *runner[T]) drain(take func(*T) error) (failed error) {
	for s := range r.results {
		err := <-s.done
		if failed != nil {
			continue
		}
		if err == nil {
			err = Contain(func() error { return take(s.item) })
		}
		if err != nil {
			failed = err
			close(r.stop)
			continue
		}
		r.free <- s
	}
	return failed
}
