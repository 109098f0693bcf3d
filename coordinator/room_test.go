package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRoomIsLessWhileAnswersComeQuickly(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := room{quick: 1000, since: now.Add(-time.Hour)}
	rows := func() int { n, _ := r.rows(now); return n }
	require.Equal(t, maxAsked, rows(), "nothing was answered")

	r.answered(quickRows, now)
	require.Equal(t, maxAsked, rows(), "it took an hour")
	now = now.Add(quickTime / 2)
	r.answered(quickRows-1, now)
	require.Equal(t, maxAsked, rows())
	r.answered(1, now)
	n, holds := r.rows(now)
	require.Equal(t, 1000, n)
	require.Equal(t, quickTime, holds)

	now = now.Add(holds - 1)
	require.Equal(t, 1000, rows())
	now = now.Add(1)
	require.Equal(t, maxAsked, rows(), "none was answered any more")
	r.answered(quickRows, now)
	require.Equal(t, maxAsked, rows(), "they took too long")
}

// TestDeskGivesRoomBackWhenAnswersCease: nobody wakes a desk whose rows all wait for budgets, but its own clock.
func TestDeskGivesRoomBackWhenAnswersCease(t *testing.T) {
	now := time.Now()
	d := newDesk(1000)
	d.asked = 1000
	d.room = room{quick: 1000, since: now, brisk: true}
	d.lives = []*live{{}}
	_, wait := d.pick(now)
	require.Equal(t, quickTime, wait)
	require.True(t, d.turned)
	_, wait = d.pick(now.Add(wait))
	require.False(t, d.turned, "there is room")
	require.Negative(t, wait, "and nothing to send")
}

// TestDeskIsWokenByTheFirstAnswerThatMakesRoom, however little room there was when it was turned away.
func TestDeskIsWokenByTheFirstAnswerThatMakesRoom(t *testing.T) {
	now := time.Now()
	d := newDesk(1000)
	l, q := &live{}, &queue{asked: 1100}
	d.lives, d.asked = []*live{l}, 1100
	d.room = room{quick: 1000, since: now, brisk: true}
	_, _ = d.pick(now)
	d.answered(l, q, 100)
	require.Empty(t, d.wake, "1,000 are asked still")
	d.answered(l, q, 1)
	require.Len(t, d.wake, 1)
}
