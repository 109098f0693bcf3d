package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func TestRoomForWhatIsAnsweredQuickly(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := room{lately: 1000}
	full := func() bool { is, _ := r.full(now); return is }
	span := r.send(999, now)
	require.False(t, full())
	last := r.send(1, now)
	is, wait := r.full(now)
	require.True(t, is)
	require.Equal(t, lateSpan, wait)
	r.answered(last, 1)
	require.False(t, full())
	r.answered(span, 999)
	require.Zero(t, r.asked)
	require.Equal(t, [2]int{}, r.sent)
}

// TestRoomForWhatWaitsForBudgets: rows that are not answered soon leave their place to others, up to all that may be asked.
func TestRoomForWhatWaitsForBudgets(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := room{lately: maxAsked / 4}
	var spans []int
	for range 4 {
		for is, wait := r.full(now); is; is, wait = r.full(now) {
			require.Positive(t, wait)
			now = now.Add(wait)
		}
		spans = append(spans, r.send(maxAsked/4, now))
	}
	is, wait := r.full(now)
	require.True(t, is)
	require.Negative(t, wait, "only an answer makes room")
	now = now.Add(time.Hour)
	is, _ = r.full(now)
	require.True(t, is)
	for _, span := range spans {
		r.answered(span, maxAsked/4)
	}
	require.Zero(t, r.asked)
	require.Equal(t, [2]int{}, r.sent)
}

// TestQuickRowsBesideParkedOnes: rows that wait for budgets take no room from those that are answered at once.
func TestQuickRowsBesideParkedOnes(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := room{lately: 1000}
	r.send(1500, now)
	now = now.Add(2 * lateSpan)
	for range 100 {
		is, _ := r.full(now)
		require.False(t, is)
		r.answered(r.send(999, now), 999)
		now = now.Add(lateSpan / 7)
	}
	require.Equal(t, 1500, r.asked)
}

// deskOf is a desk with room for so many rows lately, at which a job has chunks of 100 rows.
func deskOf(lately, chunks int) (*Coordinator, *live) {
	c := New(Config{Prober: eight{}, Table: engine.DefaultTable(), Lately: lately})
	l := &live{c: c, queues: map[string]*queue{}, paces: map[string]*classPace{}}
	for range chunks {
		c.desk.add(l, []chunk{{class: "google", rows: 100}})
	}
	c.desk.enter(l)
	<-c.desk.wake
	return c, l
}

func TestDeskIsWokenByTheAnswerThatMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := deskOf(150, 3)
		first, _ := c.desk.pick(time.Now())
		second, _ := c.desk.pick(time.Now())
		require.NotNil(t, second.l)
		turned, wait := c.desk.pick(time.Now())
		require.Nil(t, turned.l)
		require.Equal(t, lateSpan, wait)

		f := &flight{l: l, q: first.q, chunk: first.c, span: first.span}
		c.desk.answered(f, 50)
		require.Empty(t, c.desk.wake, "150 are not answered")
		c.desk.answered(f, 1)
		require.Len(t, c.desk.wake, 1)
		third, _ := c.desk.pick(time.Now())
		require.NotNil(t, third.l)
	})
}

// TestDeskWakesItselfWhenNoAnswerComes: no answer wakes a desk whose rows all wait for budgets.
func TestDeskWakesItselfWhenNoAnswerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := deskOf(150, 3)
		sent := 0
		for began := time.Now(); time.Since(began) <= 2*lateSpan; {
			next, wait := c.desk.pick(time.Now())
			if next.l != nil {
				sent++
				continue
			}
			if wait < 0 {
				break
			}
			c.desk.sleep(t.Context(), wait)
		}
		require.Equal(t, 3, sent)
	})
}
