package process

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutputTailIsBounded(t *testing.T) {
	var lines []string
	ot := outputTail{line: func(l string) { lines = append(lines, l) }}
	for _, part := range []string{"one\ntw", "o\r\n", strings.Repeat("x", 3*maxOutput), "\n", "end\n\n"} {
		n, err := ot.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, []string{"one", "two"}, lines[:2])
	require.Equal(t, "end", ot.lastLine())
	require.LessOrEqual(t, len(ot.tail), maxOutput)
	require.LessOrEqual(t, len(ot.partial), maxOutput)
	require.Empty(t, (&outputTail{}).lastLine())
}

func TestSamplesAreThinned(t *testing.T) {
	var p Process
	thinned := 0
	for i := range 3 * maxSamples {
		if p.addSample(Sample{At: time.Duration(i), Peak: int64(i)}) {
			thinned++
		}
	}
	require.Less(t, len(p.Samples()), maxSamples)
	require.Positive(t, thinned)
	require.Zero(t, p.Samples()[0].At)
}

func TestCleanEnvironment(t *testing.T) {
	require.Equal(t, []string{"A=1", "NOTPROBITY_B=2"},
		CleanEnvironment([]string{"A=1", "PROBITY_DNS=x", "NOTPROBITY_B=2"}))
}
