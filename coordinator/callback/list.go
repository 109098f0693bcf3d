package callback

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"probity/store"
)

// maxListed bounds the callbacks that one List reads.
const maxListed = 2000

// List returns the callbacks of an account for which wanted is true, the newest first, at most limit of them, from
// after a position on. next is the position after the last one that it has read; "" if there are no more.
func List(s *store.Store, account, after string, limit int,
	wanted func(store.Callback) bool) (found []store.Callback, next string, err error) {
	prefix := append([]byte{store.TableCallbacks}, account+"\x00"...)
	lower := bytes.Clone(prefix)
	if after != "" {
		lower = append(lower, after+"\x00"...)
	}
	upper := append(bytes.Clone(prefix[:len(prefix)-1]), 1)
	it, err := s.Reader().NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, "", err
	}
	defer it.Close()
	read := 0
	for ok := it.First(); ok; ok = it.Next() {
		if read == maxListed || len(found) == limit {
			return found, next, nil
		}
		read++
		next = string(it.Key()[len(prefix):])
		if len(next) < listedTime {
			continue
		}
		one, err := s.Callback(next[listedTime:])
		if errors.Is(err, store.ErrNoCallback) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, "", err
		}
		if wanted(one) {
			found = append(found, one)
		}
	}
	return found, "", it.Error()
}

// listedTime is the size of the time at the start of a position.
const listedTime = 8
