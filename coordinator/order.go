package coordinator

import (
	"errors"
	"io"
	"runtime"
	"sync"
)

// breathe lets others have their turn every hundred rows or so. Left to the scheduler, work on rows has ten milliseconds at a
// time, and a single that finds a few of such before it waits for all of them.
func breathe(row int) {
	if row%128 == 127 {
		runtime.Gosched()
	}
}

// inOrder runs a pipeline: fill makes items one after another until io.EOF, workers work on them side by side, take
// gets them in the order they were made. Items are reused: their number is workers+2, and that bounds the memory.
// The first error in item order ends the pipeline; all its goroutines are gone when it returns.
func inOrder[T any](workers int, fill, work, take func(*T) error) error {
	type slot struct {
		item *T
		done chan error
	}
	n := workers + 2
	free, queue, order := make(chan slot, n), make(chan slot, n), make(chan slot, n)
	stop := make(chan struct{})
	for range n {
		free <- slot{new(T), make(chan error, 1)}
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for s := range queue {
				s.done <- work(s.item)
			}
		})
	}
	var ended error
	all.Go(func() {
		defer close(order)
		defer close(queue)
		for {
			var s slot
			select {
			case s = <-free:
			case <-stop:
				return
			}
			if ended = fill(s.item); ended != nil {
				return
			}
			order <- s
			queue <- s
		}
	})
	var failed error
	for s := range order {
		err := <-s.done
		if err == nil && failed == nil {
			err = take(s.item)
		}
		if err != nil && failed == nil {
			failed = err
			close(stop)
		}
		if failed == nil {
			free <- s
		}
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	if errors.Is(ended, io.EOF) {
		return nil
	}
	return ended
}
