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
)

// The bounds of a password. The upper one keeps a login from being a way to make us hash megabytes.
const (
	MinPassword = 10
	MaxPassword = 256
)

// ErrPasswordLength refuses a password that is too short or too long.
var ErrPasswordLength = fmt.Errorf("the password must have %d to %d bytes", MinPassword, MaxPassword)

// hashCost is what one argon2id computation takes. It is written into each hash, so that it can be raised later.
type hashCost struct {
	time, memoryKiB uint32
	threads         uint8
}

// defaultCost is about 20 ms and 19 MiB: RFC 9106 section 4 lets memory be traded for passes where it is scarce.
var defaultCost = hashCost{time: 2, memoryKiB: 19 << 10, threads: 1}

// hashesAtOnce bounds the memory and the processors that logins can take together.
const hashesAtOnce = 2

// passwords hashes with bounded concurrency.
type passwords struct {
	cost  hashCost
	slots chan struct{}
}

func newPasswords(cost hashCost) *passwords {
	return &passwords{cost: cost, slots: make(chan struct{}, hashesAtOnce)}
}

// hash is a new salted hash of a password, in the usual $argon2id$ notation.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	var salt [16]byte
	rand.Read(salt[:])
	sum, err := p.derive(ctx, password, salt[:], p.cost, 32)
	if err != nil {
		return "", err
	}
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, p.cost.memoryKiB, p.cost.time, p.cost.threads, enc(salt[:]), enc(sum)), nil
}

// matches tells whether password is the one that hash was made of.
func (p *passwords) matches(ctx context.Context, hash, password string) (bool, error) {
	h, err := parseHash(hash)
	if err != nil {
		return false, err
	}
	sum, err := p.derive(ctx, password, h.salt, h.cost, uint32(len(h.sum)))
	return err == nil && subtle.ConstantTimeCompare(sum, h.sum) == 1, err
}

// waste takes the time of a comparison, so that an unknown e-mail address answers no faster than a known one.
func (p *passwords) waste(ctx context.Context, password string) error {
	_, err := p.derive(ctx, password, make([]byte, 16), p.cost, 32)
	return err
}

func (p *passwords) derive(ctx context.Context, password string, salt []byte, c hashCost, size uint32) ([]byte, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		return argon2.IDKey([]byte(password), salt, c.time, c.memoryKiB, c.threads, size), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type passwordHash struct {
	cost      hashCost
	salt, sum []byte
}

var errHashForm = errors.New("not an argon2id hash of ours")

// maxCostKiB bounds the memory that a stored hash may ask for: a store from elsewhere must not exhaust this machine.
const maxCostKiB = 1 << 20

func parseHash(s string) (passwordHash, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return passwordHash{}, errHashForm
	}
	var h passwordHash
	_, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.cost.memoryKiB, &h.cost.time, &h.cost.threads)
	if err != nil || h.cost.memoryKiB > maxCostKiB || h.cost.time < 1 || h.cost.time > 64 || h.cost.threads < 1 {
		return passwordHash{}, errHashForm
	}
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return passwordHash{}, errHashForm
	}
	if h.sum, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(h.sum) != 32 {
		return passwordHash{}, errHashForm
	}
	return h, nil
}

func checkPasswordLength(p string) error {
	if len(p) < MinPassword || len(p) > MaxPassword {
		return ErrPasswordLength
	}
	return nil
}
