// Package ring is a first-in-first-out queue that reuses its memory, and frees it when it is empty: most of many
// thousands are.
package ring

// Ring is a queue; the zero value is empty.
type Ring[T any] struct {
	items []T
	head  int
	n     int
}

// Len returns how many items are in it.
func (r *Ring[T]) Len() int { return r.n }

// Push adds the newest item.
func (r *Ring[T]) Push(v T) {
	if r.n == len(r.items) {
		grown := append(make([]T, 0, max(4, 2*r.n)), r.items[r.head:]...)
		r.items, r.head = append(grown, r.items[:r.head]...)[:cap(grown)], 0
	}
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

// Pop removes the oldest item; the ring must not be empty.
func (r *Ring[T]) Pop() T {
	v := r.items[r.head]
	clear(r.items[r.head : r.head+1])
	r.head, r.n = (r.head+1)%len(r.items), r.n-1
	if r.n == 0 {
		*r = Ring[T]{}
	}
	return v
}

// Peek is the oldest item; the ring must not be empty.
func (r *Ring[T]) Peek() T { return r.items[r.head] }

// MoveLastToFront puts the newest item before the oldest; the ring must not be empty.
func (r *Ring[T]) MoveLastToFront() {
	last := (r.head + r.n - 1) % len(r.items)
	r.head = (r.head + len(r.items) - 1) % len(r.items)
	// the same place in a full ring, else the first was free
	r.items[r.head], r.items[last] = r.items[last], r.items[r.head]
}

// Remove takes v out of a ring; the others keep their order.
func Remove[T comparable](r *Ring[T], v T) {
	for n := r.n; n > 0; n-- {
		if other := r.Pop(); other != v {
			r.Push(other)
		}
	}
}
