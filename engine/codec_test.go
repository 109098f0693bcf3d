package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCoreSurvives(t *testing.T) {
	for r := ReasonNone; r <= ReasonInternalError; r++ {
		want := VerdictFor(r, "", FlagRole|FlagFree|FlagAlias, time.UnixMilli(1767355200123).UTC())
		want.SMTPValid, want.Details.CatchAll, want.Details.Full = r == ReasonNone, No, r == ReasonMailboxFull
		got, err := ReadCore(AppendCore(nil, &want))
		require.NoError(t, err, r.String())
		require.Equal(t, want, got)
	}
}

func FuzzReadCore(f *testing.F) {
	v := VerdictFor(ReasonCatchAll, "", FlagFree, time.UnixMilli(1))
	f.Add(AppendCore(nil, &v))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadCore(b)
		if err != nil {
			return
		}
		if again := AppendCore(nil, &got); !bytes.Equal(again, b[:CoreSize]) {
			t.Fatalf("%x became %x", b[:CoreSize], again)
		}
	})
}
