package feedback

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"probity/store"
)

// get returns a copy of a value, nil if there is none.
func get(r pebble.Reader, k []byte) ([]byte, error) {
	v, closer, err := r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
	defer closer.Close()
	return append([]byte{}, v...), nil
}

// readOne reads and decodes a value; nil if there is none.
func readOne[T any](r pebble.Reader, k []byte, decode func([]byte) (T, error)) (*T, error) {
	v, err := get(r, k)
	if err != nil || v == nil {
		return nil, err
	}
	one, err := decode(v)
	return &one, err
}

// errStop ends a scan early without an error.
var errStop = errors.New("stop")

// scan calls visit with each key and value under prefix, from the key start on if it is not nil. Both are valid until
// visit returns.
func scan(r pebble.Reader, prefix, start []byte, visit func(k, v []byte) error) error {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; ; i-- { // the first byte is that of a table, so it ends before it wraps
		end[i]++
		if end[i] != 0 {
			end = end[:i+1]
			break
		}
	}
	if start == nil {
		start = prefix
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
	var visited error
	for ok := it.First(); ok && visited == nil; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			visited = fmt.Errorf("%w: %w", store.ErrBroken, err)
			break
		}
		visited = visit(it.Key(), v)
	}
	if errors.Is(visited, errStop) {
		visited = nil
	}
	if err := it.Close(); err != nil {
		return errors.Join(visited, fmt.Errorf("%w: %w", store.ErrBroken, err))
	}
	return visited
}
