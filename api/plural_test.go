package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func TestDetailsUseSingularAndPlural(t *testing.T) {
	require.Equal(t, "You have 1 credit; this needs 2: add credits and try again.",
		refusalOfStore(&store.ErrInsufficientCredits{Balance: 1, Needed: 2}).Detail)
	require.Equal(t, "You have 0 credits; this needs 1: add credits and try again.",
		refusalOfStore(&store.ErrInsufficientCredits{Needed: 1}).Detail)
	require.Equal(t, "The limit of 1 upload an hour is reached: wait 1 second (Retry-After).",
		overLimit(store.Decision{Limit: 1, Per: time.Hour}, "upload").Detail)
	require.Equal(t, "The limit of 30 single verifications a minute is reached: wait 12 seconds (Retry-After).",
		overLimit(store.Decision{Limit: 30, Per: time.Minute, RetryAfter: 12 * time.Second},
			"single verification").Detail)
}
