package store

import (
	"fmt"
	"strings"
)

// Format is the version of this schema. A store with another one is refused.
const Format = 1

// The schema: the first byte of a key names its table. Numbers in keys are big-endian. Strings that are followed by
// more of a key are closed by a zero byte and never contain one.
//
//	table           key after the first byte            value                 file
const (
	tableMeta     = 'm' // name                              "format" uint32, "clock" ms uint64  store.go, settings.go
	tableJob      = 'j' // job id                            Job as JSON           jobs.go
	tableOwner    = 'o' // account, 0, ^created, job id      state, 0, sort name   job_list.go
	tableJobStage = 'J' // stage, time uint64, job id      empty                 job_stages.go

	tableUser           = 'u' // account                         user as JSON          users.go
	tableEmail          = 'e' // hash of a folded login e-mail   account               users.go
	tableAPIKey         = 'k' // account, 0, key id              apiKey as JSON        apikeys.go
	tableKeyUsed        = 't' // account, 0, key id              unix seconds uint64   apikeys.go
	tableBalance        = 'b' // account                         balance, fixed fields ledger.go
	tableLedger         = 'l' // account, 0, number uint64       record                ledger_record.go
	tableCause          = 'd' // account, 0, entry id            number uint64         ledger.go
	tableReserve        = 'r' // account, 0, j, reference        credits uint64        ledger_reserve.go
	tableWindow         = 'w' // window name                     window, fixed fields  limits.go
	tableAnswer         = 'i' // account, 0, hash of the request Answer as JSON        idempotency.go
	tableSession        = 's' // hash of the token               Session as JSON       sessions.go
	tableAccountSession = 'a' // account, 0, hash of the token   empty                 sessions.go
	tableLockout        = 'L' // HMACs of login and network     expiry, signin.Failures users_login.go
	tableSetting        = 'f' // name                            bytes                 settings.go
	tableAccount        = 'g' // account, 0, name                bytes                 settings.go
	tableAudit          = 'z' // time uint64, random             Act as JSON           settings_audit.go
	tableErasure        = 'x' // id                              Erasure as JSON       erasures.go
	tableOpenErasure    = 'h' // hash of an address in hex       id of its open erasure erasures.go
	tableSuppression    = 'p' // kind, 0, hash of the name       Suppression as JSON   suppress.go
	tableCallback       = 'v' // job id                          Callback as JSON      callbacks.go
	tableCallbackDue    = 'y' // time uint64, job id             empty                 callbacks.go
	TableCallbacks      = 'c' // account, 0, ^time, job id        empty: newest first   callbacks.go
	TableSingle         = 'S' // request id                      call as JSON          coordinator/singles
	tableAttempt        = 'q' // job id, 0, number uint64        Attempt as JSON       callbacks.go
	TableFeedback       = 'F' // kind, then as in store/feedback
	TableDelivery       = 'D' // kind, then as in store/deliveries
)

// MaxName is the greatest length of a string that is part of a key.
const MaxName = 255

// key is the key of a name in a table.
func key(table byte, name string) []byte {
	return append([]byte{table}, name...)
}

// keyPrefix is the start of a key whose name is followed by more.
func keyPrefix(table byte, name string) []byte { return append(key(table, name), 0) }

// subKey is the key of rest under a name.
func subKey[T string | []byte](table byte, name string, rest T) []byte {
	return append(keyPrefix(table, name), rest...)
}

// numberedKey is a key that orders by n under a name.
func numberedKey(table byte, name string, n uint64) []byte {
	return appendUint64(keyPrefix(table, name), n)
}

// prefixEnd is the least key greater than every key that begins with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// checkName refuses a string that cannot be a part of a key.
func checkName(what, s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%s: %d bytes, want 1 to %d", what, len(s), MaxName)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%s contains a zero byte", what)
	}
	return nil
}
