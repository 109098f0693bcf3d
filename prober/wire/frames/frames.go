package frames

import (
	"errors"
	"fmt"
	"math"
	"time"

	"probity/prober/wire"
)

// ErrMalformed is returned for a message that no peer of this protocol sends.
var ErrMalformed = errors.New("malformed message")

// Malformed is an ErrMalformed that says what is wrong.
func Malformed(what string, args ...any) error {
	return fmt.Errorf("%w: "+what, append([]any{ErrMalformed}, args...)...)
}

// Count makes a number of rows fit the wire.
func Count(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

// unixNano is t in nanoseconds since 1970; 0 for the zero time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromUnixNano(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// NewIdentityFrames makes the messages of identities.
func NewIdentityFrames(ids []wire.Identity) []*IdentityFrame {
	frames := make([]*IdentityFrame, len(ids))
	for i, id := range ids {
		frames[i] = &IdentityFrame{Name: id.Name, Local: id.Local, Public: id.Public, Ehlo: id.EHLO}
	}
	return frames
}

// ReadIdentities reads what NewIdentityFrames made.
func ReadIdentities(frames []*IdentityFrame) []wire.Identity {
	frames = frames[:min(len(frames), maxIdentities)]
	ids := make([]wire.Identity, len(frames))
	for i, f := range frames {
		ids[i] = wire.Identity{Name: f.GetName(), Local: f.GetLocal(), Public: f.GetPublic(), EHLO: f.GetEhlo()}
	}
	return ids
}
