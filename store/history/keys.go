package history

import (
	"encoding/binary"
	"strings"
)

// kind is a kind of rows: the first byte of a key. The schema:
//
//	kind           key after the first byte              value
type kind byte

const (
	requests      kind = 'r' // account, 0, number of the first row    block of requests
	verifications kind = 'v' // account, 0, number of the first row    block of verifications
	days          kind = 'd' // account, 0, day since 1970             counts of a Day
)

// oldValuesKey is there while files may have addresses that were erased.
var oldValuesKey = []byte{'e'}

var kinds = [...]kind{requests, verifications, days}

// numberSize is the size of the number that ends each key: big-endian, so that key order is number order. Rows are
// numbered from 1 on.
const numberSize = 8

// prefix is the start of the keys of an account.
func (k kind) prefix(account string) []byte {
	return append(append([]byte{byte(k)}, account...), 0)
}

func (k kind) key(account string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(k.prefix(account), n)
}

// end is the least key after those of an account.
func (k kind) end(account string) []byte {
	return append(append([]byte{byte(k)}, account...), 1)
}

// splitKey returns the account and the number of a key.
func splitKey(key []byte) (account string, n uint64) {
	at := len(key) - numberSize
	if at < 2 {
		return "", 0
	}
	return strings.TrimSuffix(string(key[1:at]), "\x00"), binary.BigEndian.Uint64(key[at:])
}
