package bench

import (
	"context"
	"fmt"

	"probity/bench/baseline"
)

// Conversation is our own conversation with mail servers. The caller supplies it, since this package imports none of
// our packages. It prepares what a prober has before it probes (parsed addresses, known routes), and returns a function
// that runs the i-th task, any number of times and concurrently. Only that function is measured. It counts decoys as
// connections' work, not as recipients.
type Conversation func(dial baseline.Dial, tasks []baseline.Task) baseline.RunTask

// conversationRounds is how often the bare client and our conversation alternate, so that both see the same load of the
// machine.
const conversationRounds = 5

// measureConversation measures our conversation and the baseline alternately, on the same tasks and over as many
// connections.
func measureConversation(ctx context.Context, t *Trial, tasks []baseline.Task) (bare baseline.Count, err error) {
	if t.Conversation == nil {
		return runBareClient(ctx, t, tasks)
	}
	t.logProgress("a bare pipelined SMTP client, and the conversation alone in turns")
	ours, client := t.Conversation(t.Dial, tasks), bareClient(t, tasks)
	var count baseline.Count
	for range conversationRounds {
		for _, side := range []struct {
			name  string
			run   baseline.RunTask
			count *baseline.Count
		}{{"floor", client, &bare}, {"conversation", ours, &count}} {
			part, err := baseline.Measure(ctx, connections, len(tasks), side.run)
			if err != nil {
				return bare, fmt.Errorf("%s: %w", side.name, err)
			}
			side.count.Add(part)
		}
	}
	reportBaseline(t, bare)
	t.Metric("conversation_recipients", float64(count.Recipients), "")
	t.Metric("conversation_not_judged", float64(count.Recipients-count.Judged+count.Lost), "")
	t.Metric("conversation_connections", float64(count.Connections), "")
	t.Metric("conversation_recipients_per_second", count.Rate(), "rcpt/s")
	t.Metric("conversation_cpu_per_recipient", perItem(count.CPU, count.Recipients), "us")
	t.Metric("conversation_ratio_to_floor", ratio(count.Rate(), bare.Rate()), "ratio")
	t.Metric("conversation_cpu_ratio_to_floor", ratio(perItem(count.CPU, count.Recipients),
		perItem(bare.CPU, bare.Recipients)), "ratio")
	t.AtLeast("conversation_ratio_to_floor", 0.25)
	t.AtMost("conversation_not_judged", 0)
	return bare, nil
}
