package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
)

// slot is an item, and the channel for its worker's result. A slot is free, filled, worked on, taken in order, and free
// again.
type slot[T any] struct {
	item *T
	done chan error
}

// Run runs a pipeline: fill makes items one after another until io.EOF, workers process them in parallel, and take gets
// them in the order in which they were made. Items are reused; there are workers+2 of them, which bounds the memory.
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
			ended = Contain(func() error { return fill(s.item) })
			if ended != nil {
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

// Pool keeps values whose memory is reused, across jobs (BenchmarkJob with JOB_BEFORE). A nil pool is always empty.
type Pool[T any] struct {
	pool sync.Pool
	// Reset drops the value's references and reports whether it is small enough to keep. Nil: nothing to do.
	Reset func(*T) bool
}

// Get returns a kept value, or a new one.
func (p *Pool[T]) Get() *T {
	if p != nil {
		if x, ok := p.pool.Get().(*T); ok {
			return x
		}
	}
	return new(T)
}

// Put returns a value that is not used any more.
func (p *Pool[T]) Put(x *T) {
	if p != nil && (p.Reset == nil || p.Reset(x)) {
		p.pool.Put(x)
	}
}

// ErrPanic is a panic that Contain has caught.
var ErrPanic = errors.New("BUG: panic")

// Fatal is the value of a panic that must end the process: a database has lost a write, so that the state on disk is
// unknown until it is read again, and it keeps its locks.
type Fatal interface {
	error
	EndsProcess()
}

// Contain runs work. A panic becomes an error that wraps ErrPanic and has the stack, unless it is Fatal.
func Contain(work func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case Fatal:
			panic(p)
		default:
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return work()
}

// ContextReader fails once its context has ended.
type ContextReader struct {
	Context context.Context
	io.Reader
}

func (r ContextReader) Read(p []byte) (int, error) {
	if err := r.Context.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Acquire acquires a slot of a counting semaphore, or fails when ctx ends.
func Acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake is a notification for one goroutine. One that waits already is enough.
type Wake chan struct{}

// NewWake makes a Wake.
func NewWake() Wake { return make(Wake, 1) }

// Notify wakes the goroutine that receives from w, now or when it receives next. It does not block.
func (w Wake) Notify() {
	select {
	case w <- struct{}{}:
	default:
	}
}
