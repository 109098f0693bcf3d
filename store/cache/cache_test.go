package cache

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
)

func open(t testing.TB, fs vfs.FS) *Cache {
	c, err := Open(Config{FS: fs, Dir: "cache", FilterBytes: 1 << 16})
	require.NoError(t, err)
	return c
}

func testKey(n int) (k Key) {
	binary.BigEndian.PutUint64(k[:], uint64(n))
	binary.BigEndian.PutUint64(k[8:], uint64(n)*0x9E3779B97F4A7C15)
	k[len(k)-1] = byte(n)
	return k
}

func TestVerdictsExpire(t *testing.T) {
	c := open(t, vfs.NewMem())
	defer c.Close()
	at := sampleVerdict().VerifiedAt
	for _, tt := range []struct {
		reason engine.Reason
		life   time.Duration
	}{
		{engine.ReasonNone, 31 * 24 * time.Hour},
		{engine.ReasonCatchAll, 31 * 24 * time.Hour},
		{engine.ReasonAcceptedUnconfirmed, 3 * 24 * time.Hour},
		{engine.ReasonMailboxNotFound, 3 * 24 * time.Hour},
	} {
		v := engine.VerdictFor(tt.reason, "x", 0, at)
		require.NoError(t, c.Put([]Entry{{testKey(1), &v}}))
		_, ok := c.Get(testKey(1), at.Add(tt.life-1))
		require.True(t, ok, tt.reason)
		_, ok = c.Get(testKey(1), at.Add(tt.life))
		require.False(t, ok, tt.reason)
	}
}

func TestSweepDeletesTheExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, vfs.NewMem())
		defer c.Close()
		now := time.Now()
		var entries []Entry
		for i := range 5000 {
			v := engine.VerdictFor(engine.ReasonMailboxNotFound, "x", 0, now.Add(-time.Duration(i%2)*4*24*time.Hour))
			entries = append(entries, Entry{testKey(i), &v})
		}
		require.NoError(t, c.Put(entries))
		require.NoError(t, c.PutFact("a.example", "mx.a.example", &Fact{At: now.Add(-8 * 24 * time.Hour), Code: 550}))
		s, err := c.Sweep(context.Background(), now)
		require.NoError(t, err)
		require.Equal(t, Swept{Read: 5001, Deleted: 2501}, s)
	})
}

func TestLifetimesShrinkWhenOverTheSizeBound(t *testing.T) {
	c, err := Open(Config{FS: vfs.NewMem(), Dir: "cache", MaxBytes: 1})
	require.NoError(t, err)
	defer c.Close()
	now := time.Now()
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "x", 0, now.Add(-2*24*time.Hour))
	require.NoError(t, c.Put([]Entry{{testKey(1), &v}}))
	s, err := c.Sweep(context.Background(), now)
	require.NoError(t, err)
	require.Equal(t, 1, s.Deleted)
}

func TestSecretAndBudgetsSurviveReopening(t *testing.T) {
	fs := vfs.NewMem()
	c := open(t, fs)
	before := c.Keyer().Digest("decoy", "a.example")
	require.NoError(t, c.PutBudgets([]Budget{{Name: "google", State: []byte("state"),
		Until: time.Now().Add(time.Hour)}}))
	require.NoError(t, c.Close())
	c = open(t, fs)
	defer c.Close()
	require.Equal(t, before, c.Keyer().Digest("decoy", "a.example"))
	b, ok, err := c.Budget("google")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "state", string(b))
	require.NoError(t, c.PutBudgets([]Budget{{Name: "google"}}))
	_, ok, err = c.Budget("google")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestNewerFormatIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	c := open(t, fs)
	require.NoError(t, c.db.Set([]byte{tableMeta, 'f'}, []byte{Format + 1}, pebble.Sync))
	require.NoError(t, c.Close())
	_, err := Open(Config{FS: fs, Dir: "cache", FilterBytes: 1 << 16})
	require.ErrorContains(t, err, "newer program")
}

func TestFacts(t *testing.T) {
	c := open(t, vfs.NewMem())
	defer c.Close()
	f := Fact{At: time.UnixMilli(1_700_000_000_000).UTC(), Code: 550, Meaning: engine.NoMailbox,
		Blame: engine.BlameRecipient, Rule: "r"}
	require.NoError(t, c.PutFact("a.example", "mx1", &f))
	got, ok := c.Fact("a.example", "mx1", f.At.Add(LifeFact-1))
	require.True(t, ok)
	require.Equal(t, f, got)
	_, ok = c.Fact("a.example", "mx1", f.At.Add(LifeFact))
	require.False(t, ok)
	_, ok = c.Fact("a.example", "mx2", f.At)
	require.False(t, ok, "a decoy vouches only for the host that refused it")
	require.NoError(t, c.PutFact("a.example", "mx2", &f))
	_, ok = c.Fact("a.example", "mx2", f.At)
	require.True(t, ok, "that there was none is not remembered any longer")
	later := f
	later.At, later.Code = f.At.Add(LifeFact), 250
	require.NoError(t, c.PutFact("a.example", "mx1", &later))
	got, ok = c.Fact("a.example", "mx1", later.At)
	require.True(t, ok)
	require.Equal(t, later, got)
}

func TestKeepable(t *testing.T) {
	target := func(m engine.Meaning) *engine.Sighting {
		return &engine.Sighting{Subject: engine.SubjectTarget, Finding: engine.Finding{Meaning: m}}
	}
	sure := func(r engine.Reason) *engine.Verdict { v := engine.VerdictFor(r, "", 0, time.Time{}); return &v }
	require.True(t, Keepable(sure(engine.ReasonNone), target(engine.Accepted)))
	require.True(t, Keepable(sure(engine.ReasonMailboxNotFound), target(engine.NoMailbox)))
	require.True(t, Keepable(sure(engine.ReasonMailboxFull), target(engine.MailboxFull)))
	require.False(t, Keepable(sure(engine.ReasonBlocked), target(engine.Blocked)))
	require.False(t, Keepable(sure(engine.ReasonDisposable), target(engine.Greylisted)))
	require.False(t, Keepable(sure(engine.ReasonMailboxNotFound),
		&engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventTimeout}))
}

func BenchmarkPutInKeyOrder(b *testing.B) {
	c := open(b, vfs.NewMem())
	defer c.Close()
	v := sampleVerdict()
	entries := make([]Entry, 512)
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(entries) {
		for i := range entries {
			entries[i] = Entry{testKey(n + i), &v}
		}
		if err := c.Put(entries); err != nil {
			b.Fatal(err)
		}
	}
}

func TestGetBatchFindsWhatGetFinds(t *testing.T) {
	c := open(t, vfs.NewMem())
	defer c.Close()
	v := sampleVerdict()
	var entries []Entry
	var keys []Key
	for i := range 3000 {
		keys = append(keys, testKey(i))
		if i%3 == 0 {
			entries = append(entries, Entry{testKey(i), &v})
		}
	}
	require.NoError(t, c.Put(entries[:500]))
	require.NoError(t, c.db.Flush())
	require.NoError(t, c.Put(entries[500:]))
	var got []int
	require.NoError(t, c.GetBatch(keys, v.VerifiedAt, func(i int, found engine.Verdict) {
		require.Equal(t, v, found)
		got = append(got, i)
	}))
	require.Len(t, got, 1000)
	for n, i := range got {
		require.Equal(t, 3*n, i)
	}
}

func BenchmarkGetBatchMiss(b *testing.B) {
	c := open(b, vfs.NewMem())
	c.filters.complete.Store(nil)
	defer c.Close()
	keys := make([]Key, 4096)
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(keys) {
		for i := range keys {
			keys[i] = testKey(n + i)
		}
		if err := c.GetBatch(keys, time.Now(), func(int, engine.Verdict) {}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetMiss(b *testing.B) {
	c := open(b, vfs.NewMem())
	c.filters.complete.Store(nil)
	defer c.Close()
	now := time.Now()
	b.ReportAllocs()
	for n := range b.N {
		c.Get(testKey(n), now)
	}
}

func BenchmarkKey(b *testing.B) {
	c := open(b, vfs.NewMem())
	defer c.Close()
	k := c.Keyer()
	b.ReportAllocs()
	for range b.N {
		k.hash("a", "someone@somewhere.example", "")
	}
}

func TestReadsSeeTheLastWrite(t *testing.T) {
	c := open(t, vfs.NewMem())
	defer c.Close()
	key, other := testKey(1), testKey(2)
	other[len(other)-1] = key[len(key)-1] // kept in the same shard
	v := sampleVerdict()
	now := v.VerifiedAt
	for score := range uint8(3) {
		v.Score = score
		require.NoError(t, c.Put([]Entry{{key, &v}}))
		for range 2 { // from the database, from memory
			got, ok := c.Get(key, now)
			require.True(t, ok)
			require.Equal(t, v, got)
		}
		require.NoError(t, c.Put([]Entry{{other, &v}}))
	}
	_, ok := c.Get(key, now.Add(LifeAccepted))
	require.False(t, ok, "nothing is served for longer because it was read before")
	got, ok := c.Get(other, now)
	require.True(t, ok)
	require.Equal(t, v, got)
	require.NoError(t, c.Delete(key))
	_, ok = c.Get(key, now)
	require.False(t, ok)
}

// TestMaxLifeBoundsEverything: neither the database, nor memory, nor the sweep keeps anything for longer than MaxLife.
func TestMaxLifeBoundsEverything(t *testing.T) {
	const most = 24 * time.Hour
	c, err := Open(Config{FS: vfs.NewMem(), Dir: "cache", MaxLife: most})
	require.NoError(t, err)
	defer c.Close()
	key, v := testKey(1), sampleVerdict()
	f := Fact{At: v.VerifiedAt, Code: 250, Meaning: engine.Accepted, Rule: "r"}
	require.NoError(t, c.Put([]Entry{{key, &v}}))
	require.NoError(t, c.PutFact("a.example", "mx1", &f))
	for range 2 { // from the database, from memory
		_, ok := c.Get(key, v.VerifiedAt.Add(most-1))
		require.True(t, ok)
		_, ok = c.Get(key, v.VerifiedAt.Add(most))
		require.False(t, ok)
		_, ok = c.Fact("a.example", "mx1", f.At.Add(most-1))
		require.True(t, ok)
		_, ok = c.Fact("a.example", "mx1", f.At.Add(most))
		require.False(t, ok)
	}
	require.NoError(t, c.GetBatch([]Key{key}, v.VerifiedAt.Add(most), func(int, engine.Verdict) { t.Error("served") }))
	swept, err := c.Sweep(t.Context(), v.VerifiedAt.Add(most))
	require.NoError(t, err)
	require.Equal(t, 2, swept.Deleted)
}

func TestReadOvertakenByAWriteIsNotCached(t *testing.T) {
	s := recentShard[engine.Verdict]{capacity: verdictsPerShard}
	key, other := testKey(1), testKey(2)
	older, newer := sampleVerdict(), sampleVerdict()
	_, writes := s.get(&key)
	s.invalidate(&other) // whichever key of the shard
	s.put(&key, &older, writes)
	got, writes := s.get(&key)
	require.Nil(t, got)
	s.put(&key, &newer, writes)
	got, _ = s.get(&key)
	require.Same(t, &newer, got)
}

func TestRecentIsBounded(t *testing.T) {
	s := recentShard[engine.Verdict]{capacity: verdictsPerShard}
	v := sampleVerdict()
	for n := range 10 * verdictsPerShard {
		key := testKey(n)
		s.put(&key, &v, 0)
		got, _ := s.get(&key)
		require.NotNil(t, got)
	}
	require.Len(t, s.entries, verdictsPerShard)
}

// BenchmarkFact reads facts about domains, of which most have none, as jobs do: recently read domains, and others.
func BenchmarkFact(b *testing.B) {
	c := open(b, vfs.NewMem())
	defer c.Close()
	now := time.Now()
	for i := range 20_000 {
		if err := c.PutFact(fmt.Sprintf("with%d.example", i), "mx.example", &Fact{At: now, Code: 550}); err != nil {
			b.Fatal(err)
		}
	}
	for name, domains := range map[string]int{"recent": 10_000, "database": 10_000_000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				c.Fact(fmt.Sprintf("without%d.example", i*7919%domains), "mx.example", now)
			}
		})
	}
}

// BenchmarkGetHit reads a verdict from memory, and one from the database.
func BenchmarkGetHit(b *testing.B) {
	c := open(b, vfs.NewMem())
	defer c.Close()
	v := sampleVerdict()
	var entries []Entry
	for i := range 100_000 {
		entries = append(entries, Entry{testKey(i), &v})
	}
	if err := c.Put(entries); err != nil {
		b.Fatal(err)
	}
	for name, addresses := range map[string]int{"recent": 1000, "database": len(entries)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if _, ok := c.Get(entries[i*7919%addresses].Key, v.VerifiedAt); !ok {
					b.Fatal("lost")
				}
			}
		})
	}
}
