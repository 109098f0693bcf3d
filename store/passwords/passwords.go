package passwords

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Cost is the cost of one argon2id computation. It is part of each hash, so that it can be raised later.
type Cost struct {
	Time, MemoryKiB uint32
	Threads         uint8
}

// DefaultCost is about 20 ms and 19 MiB: RFC 9106 section 4 lets memory be traded for passes where it is scarce.
var DefaultCost = Cost{Time: 2, MemoryKiB: 19 << 10, Threads: 1}

// maxRunning bounds the memory and the processors that logins can use together, and maxWaiting how many more may wait:
// a third of a second of work. More are refused at once, so that an attack does not make other clients wait.
const (
	maxRunning = 2
	maxWaiting = 32
)

// ErrBusy refuses a password because too many others are waiting to be compared.
var ErrBusy = errors.New("too many passwords are being checked")

// Hasher hashes with bounded concurrency. It is safe for concurrent use.
type Hasher struct {
	cost  Cost
	queue chan struct{} // one for each running or waiting computation
	slots chan struct{} // one for each running computation
}

// New makes a Hasher whose new hashes have a cost.
func New(cost Cost) *Hasher {
	return &Hasher{cost: cost, queue: make(chan struct{}, maxRunning+maxWaiting),
		slots: make(chan struct{}, maxRunning)}
}

// Acquire waits until the caller may compute a hash; the caller calls done afterwards. It gives up with ctx, and at
// once with ErrBusy if too many wait already.
func (h *Hasher) Acquire(ctx context.Context) (done func(), err error) {
	select {
	case h.queue <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots; <-h.queue }, nil
	case <-ctx.Done():
		<-h.queue
		return nil, ctx.Err()
	}
}

// Hash returns a new salted hash of a password, in the usual $argon2id$ notation. Its errors are those of Acquire.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	done, err := h.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	var salt [saltBytes]byte
	rand.Read(salt[:])
	sum := h.cost.derive(password, salt[:], sumBytes)
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, h.cost.MemoryKiB, h.cost.Time, h.cost.Threads, enc(salt[:]), enc(sum)), nil
}

// Matches reports whether hash was made from password. The caller has called Acquire. A hash that Hash did not make is
// an error.
func (h *Hasher) Matches(hash, password string) (bool, error) {
	was, err := parseHash(hash)
	if err != nil {
		return false, err
	}
	sum := was.cost.derive(password, was.salt, uint32(len(was.sum)))
	return subtle.ConstantTimeCompare(sum, was.sum) == 1, nil
}

// MatchNothing takes the time of Matches. The caller has called Acquire.
func (h *Hasher) MatchNothing(password string) {
	h.cost.derive(password, make([]byte, saltBytes), sumBytes)
}

func (c Cost) derive(password string, salt []byte, size uint32) []byte {
	return argon2.IDKey([]byte(password), salt, c.Time, c.MemoryKiB, c.Threads, size)
}

const saltBytes, sumBytes = 16, 32

// passwordHash is a hash in its parts.
type passwordHash struct {
	cost      Cost
	salt, sum []byte
}

var errBadHash = errors.New("not an argon2id hash of ours")

// maxCostKiB bounds the memory cost of a stored hash: a store from elsewhere must not exhaust this machine.
const maxCostKiB = 1 << 20

func parseHash(s string) (passwordHash, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return passwordHash{}, errBadHash
	}
	var h passwordHash
	_, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.cost.MemoryKiB, &h.cost.Time, &h.cost.Threads)
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[4])
	sum, sumErr := base64.RawStdEncoding.DecodeString(parts[5])
	h.salt, h.sum = salt, sum
	if errors.Join(err, saltErr, sumErr) != nil || len(sum) != sumBytes || h.cost.MemoryKiB > maxCostKiB ||
		h.cost.Time < 1 || h.cost.Time > 64 || h.cost.Threads < 1 {
		return passwordHash{}, errBadHash
	}
	return h, nil
}
