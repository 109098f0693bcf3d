package store

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"

	"probity/store/base62"
)

// The bounds of a password. The upper one keeps clients from making us hash megabytes.
const (
	MinPassword = 10
	MaxPassword = 256
)

// ErrPasswordLength refuses a password that is too short or too long.
var ErrPasswordLength = errors.New("the password is too short or too long")

// hashCost is the cost of one argon2id computation. It is part of each hash, so that it can be raised later.
type hashCost struct {
	time, memoryKiB uint32
	threads         uint8
}

// defaultCost is about 20 ms and 19 MiB: RFC 9106 section 4 lets memory be traded for passes where it is scarce.
var defaultCost = hashCost{time: 2, memoryKiB: 19 << 10, threads: 1}

// maxRunningHashes bounds the memory and the processors that logins can use together, and maxWaitingHashes how many
// more may wait: a third of a second of work. More are refused at once, so that an attack does not make other clients
// wait.
const (
	maxRunningHashes = 2
	maxWaitingHashes = 32
)

// ErrPasswordsBusy refuses a password because too many others are waiting to be compared.
var ErrPasswordsBusy = errors.New("too many passwords are being checked")

// passwords hashes with bounded concurrency.
type passwords struct {
	cost  hashCost
	queue chan struct{} // one for each running or waiting computation
	slots chan struct{} // one for each running computation
}

func newPasswords(cost hashCost) *passwords {
	return &passwords{cost: cost, queue: make(chan struct{}, maxRunningHashes+maxWaitingHashes),
		slots: make(chan struct{}, maxRunningHashes)}
}

// acquire waits until the caller may compute a hash; the caller calls done afterwards. It gives up with ctx, and at
// once if too many wait already.
func (p *passwords) acquire(ctx context.Context) (done func(), err error) {
	select {
	case p.queue <- struct{}{}:
	default:
		return nil, ErrPasswordsBusy
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots; <-p.queue }, nil
	case <-ctx.Done():
		<-p.queue
		return nil, ctx.Err()
	}
}

// hash returns a new salted hash of a password, in the usual $argon2id$ notation.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	done, err := p.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	var salt [16]byte
	rand.Read(salt[:])
	sum := p.cost.derive(password, salt[:], 32)
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, p.cost.memoryKiB, p.cost.time, p.cost.threads, enc(salt[:]), enc(sum)), nil
}

// matches reports whether hash was made from password. The caller has called acquire.
func (p *passwords) matches(hash, password string) (bool, error) {
	h, err := parseHash(hash)
	if err != nil {
		return false, err
	}
	sum := h.cost.derive(password, h.salt, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1, nil
}

func (c hashCost) derive(password string, salt []byte, size uint32) []byte {
	return argon2.IDKey([]byte(password), salt, c.time, c.memoryKiB, c.threads, size)
}

type passwordHash struct {
	cost      hashCost
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
	_, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.cost.memoryKiB, &h.cost.time, &h.cost.threads)
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[4])
	sum, sumErr := base64.RawStdEncoding.DecodeString(parts[5])
	h.salt, h.sum = salt, sum
	if errors.Join(err, saltErr, sumErr) != nil || len(sum) != 32 || h.cost.memoryKiB > maxCostKiB || h.cost.time < 1 ||
		h.cost.time > 64 ||
		h.cost.threads < 1 {
		return passwordHash{}, errBadHash
	}
	return h, nil
}

// RandomPassword makes a random password.
func RandomPassword() string { return base62.Random(20) }

func checkPasswordLength(p string) error {
	if len(p) < MinPassword || len(p) > MaxPassword {
		return ErrPasswordLength
	}
	return nil
}
