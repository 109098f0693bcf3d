package pipeline

import (
	"errors"
	"io"
	"sync"
)

// Run runs a pipeline: fill makes items one after another until io.EOF, workers process them in parallel, and take
// gets them in the order in which they were made. Items are reused; there are workers+2 of them, which bounds the memory.
// The first error or panic in item order ends the pipeline. All its goroutines have ended when it returns.
func Run[T any](items *Pool[T], workers int, fill, work, take func(*T) error) error {
	p := newRunner(items, workers+2)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { p.runWorker(work) })
	}
	var ended error
	all.Go(func() { ended = p.fill(fill) })
	failed := p.drain(take)
	all.Wait()
	p.releaseItems(items)
	switch {
	case failed != nil:
		return failed
	case errors.Is(ended, io.EOF):
		return nil
	}
	return ended
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
	p := &runner[T]{free: make(chan slot[T], slots), work: make(chan slot[T], slots), results: make(chan slot[T], slots), stop: make(chan struct{})}
	for range slots {
		item := items.Get()
		p.items = append(p.items, item)
		p.free <- slot[T]{item, make(chan error, 1)}
	}
	return p
}

// releaseItems returns the items to the pool, after all goroutines of the pipeline have ended.
func (p *runner[T]) releaseItems(items *Pool[T]) {
	for _, item := range p.items {
		items.Put(item)
	}
}

// fill fills items until the fill function returns an error (io.EOF at the end) or the pipeline stops.
func (p *runner[T]) fill(fill func(*T) error) error {
	defer close(p.results)
	defer close(p.work)
	for {
		var s slot[T]
		select {
		case s = <-p.free:
		case <-p.stop:
			return nil
		}
		if err := Contain(func() error { return fill(s.item) }); err != nil {
			return err
		}
		p.results <- s
		p.work <- s
	}
}

func (p *runner[T]) runWorker(work func(*T) error) {
	for s := range p.work {
		s.done <- Contain(func() error { return work(s.item) })
	}
}

// drain takes items in order until there are no more or one has failed; then it only waits for the remaining ones.
func (p *runner[T]) drain(take func(*T) error) (failed error) {
	for s := range p.results {
		err := <-s.done
		if failed != nil {
			continue
		}
		if err == nil {
			err = Contain(func() error { return take(s.item) })
		}
		if err != nil {
			failed = err
			close(p.stop)
			continue
		}
		p.free <- s
	}
	return failed
}
