package bench

import (
	"context"
	"fmt"
	"net/netip"
)

// Task is the work for one host, over as many connections as the host requires.
type Task struct {
	Host       string // name of the mail host
	At         netip.AddrPort
	Recipients [][]string // by transaction; those of one transaction are of one domain
}

// TaskResult is the result of a task.
type TaskResult struct {
	Recipients  int // that got a reply; decoys are not counted
	Accepted    int // of them
	Judged      int // of them, with a verdict
	Lost        int // that got no reply
	Connections int
}

// Conversation is our own conversation with mail servers. The caller supplies it, since this package imports none of our packages. It
// prepares what a prober has before it probes (parsed addresses, known routes), and returns a function that runs the i-th task, any
// number of times and concurrently. Only that function is measured.
type Conversation func(dial Dial, tasks []Task) (runTask func(ctx context.Context, i int) TaskResult)

// conversationRounds is how often the bare client and our conversation alternate, so that both see the same load of the machine.
const conversationRounds = 5

// measureConversation measures our conversation and the baseline alternately, on the same tasks and over as many connections.
func measureConversation(ctx context.Context, t *Trial, in *internet, tasks []task) (baseline clientCount, err error) {
	if t.Conversation == nil {
		return runBareClient(ctx, t, in, tasks)
	}
	t.logProgress("a bare pipelined SMTP client, and the conversation alone in turns")
	given := make([]Task, len(tasks))
	for i, e := range tasks {
		given[i] = Task{Host: e.name, At: netip.AddrPortFrom(e.host, uint16(in.smtpPort)), Recipients: e.transactions}
	}
	runTask := t.Conversation(t.Dial, given)
	bare := defaultBaseline(t, in)
	ours := workerPool{bare.connections, func(ctx context.Context, i int) clientCount {
		answered := runTask(ctx, i)
		return clientCount{Recipients: answered.Recipients, Accepted: answered.Accepted, Judged: answered.Judged, Lost: answered.Lost, Connections: answered.Connections}
	}}
	var count clientCount
	for range conversationRounds {
		for _, side := range []struct {
			name  string
			pool  workerPool
			count *clientCount
		}{{"floor", bare.pool(tasks), &baseline}, {"conversation", ours, &count}} {
			part, err := side.pool.repeat(ctx, len(tasks))
			if err != nil {
				return baseline, fmt.Errorf("%s: %w", side.name, err)
			}
			side.count.add(part)
		}
	}
	reportBaseline(t, baseline)
	reportConversation(t, count, baseline)
	return baseline, nil
}

func reportConversation(t *Trial, count, baseline clientCount) {
	t.Metric("conversation_recipients", float64(count.Recipients), "")
	t.Metric("conversation_not_judged", float64(count.Recipients-count.Judged+count.Lost), "")
	t.Metric("conversation_connections", float64(count.Connections), "")
	t.Metric("conversation_recipients_per_second", count.rate(), "rcpt/s")
	t.Metric("conversation_cpu_per_recipient", perItem(count.CPU, count.Recipients), "us")
	t.Metric("conversation_ratio_to_floor", ratio(count.rate(), baseline.rate()), "ratio")
	t.Metric("conversation_cpu_ratio_to_floor", ratio(perItem(count.CPU, count.Recipients), perItem(baseline.CPU, baseline.Recipients)), "ratio")
	t.AtLeast("conversation_ratio_to_floor", 0.25)
	t.AtMost("conversation_not_judged", 0)
}
